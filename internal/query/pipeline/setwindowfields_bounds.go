package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Bounds are those of a window.
type Bounds struct {
	// Range says that the bounds are distances in the field of the sort, not
	// numbers of documents.
	Range        bool
	Unit         string // of the distances, if the field is a date
	Lower, Upper Bound
	at           expr.Expr // the field of the sort, for Range
}

// Bound is one bound: without any of its fields set, the current document.
type Bound struct {
	Unbounded bool
	By        bson.Value // a number; Missing: the current document
}

var (
	wholeBounds   = Bounds{Lower: Bound{Unbounded: true}, Upper: Bound{Unbounded: true}}
	runningBounds = Bounds{Lower: Bound{Unbounded: true}}
)

// distance returns the bound as a number.
func (b Bound) distance() bson.Value {
	if b.By.IsMissing() {
		return bson.Int32(0)
	}
	return b.By
}

// documents is the bound of a window of documents.
func (b Bound) documents() int {
	n, _ := bson.ExactInt64(b.distance())
	return int(max(min(n, maxWindow), -maxWindow))
}

// maxWindow caps the distance: no partition has more documents.
const maxWindow = 1 << 40

// parseBounds parses a window: {documents: [lower, upper]} or {range: [lower,
// upper], unit}. Errors: FailedToParse for its form, 5339900 for bounds in the
// wrong order, 5339901, 5339902 and 8947401 for an unsuitable sort.
func parseBounds(v bson.Value, order expr.WindowOrder, p *parsing) (Bounds, error) {
	var documents, rng, unit bson.Value
	for it := v.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "documents":
			documents = it.Value
		case "range":
			rng = it.Value
		case "unit":
			unit = it.Value
		default:
			return Bounds{}, mongoerr.New(mongoerr.FailedToParse, "'window' field can only contain 'documents', 'range' or 'unit', found: %s", it.Key)
		}
	}
	switch {
	case documents.IsMissing() && rng.IsMissing():
		if !unit.IsMissing() {
			return Bounds{}, mongoerr.New(mongoerr.FailedToParse, "'unit' is only allowed with 'range'")
		}
		return wholeBounds, nil
	case !documents.IsMissing() && !rng.IsMissing():
		return Bounds{}, mongoerr.New(mongoerr.FailedToParse, "'window' field can specify either 'documents' or 'range', not both")
	case rng.IsMissing() && !unit.IsMissing():
		return Bounds{}, mongoerr.New(mongoerr.FailedToParse, "'unit' is only allowed with 'range'")
	case rng.IsMissing():
		return parseDocumentBounds(documents, order, p)
	}
	return parseRangeBounds(rng, unit, order, p)
}

func parseDocumentBounds(v bson.Value, order expr.WindowOrder, p *parsing) (Bounds, error) {
	var b Bounds
	err := b.parse("documents", v, p, func(x bson.Value) error {
		if !isInt32(x) {
			return mongoerr.New(mongoerr.FailedToParse, "Numeric document-based bounds must be an integer")
		}
		return nil
	})
	if err == nil && !(b.Lower.Unbounded && b.Upper.Unbounded) && order.Spec == nil {
		err = mongoerr.New(5339901, "Document-based bounds require a sortBy")
	}
	return b, err
}

func parseRangeBounds(v, unit bson.Value, order expr.WindowOrder, p *parsing) (Bounds, error) {
	b := Bounds{Range: true}
	if !unit.IsMissing() {
		if unit.Type != bson.TypeString {
			return b, mongoerr.New(mongoerr.FailedToParse, "'unit' must be a string")
		}
		b.Unit = unit.Str()
		if !expr.IsTimeUnit(b.Unit) {
			return b, mongoerr.New(mongoerr.FailedToParse, "unknown time unit value: %s", b.Unit)
		}
	}
	err := b.parse("range", v, p, func(x bson.Value) error {
		switch {
		case b.Unit != "" && !isInt32(x):
			return mongoerr.New(mongoerr.FailedToParse, "With 'unit', range-based bounds must be an integer")
		case !x.IsNumber():
			return mongoerr.New(mongoerr.FailedToParse, "Range-based bounds expression must be a number")
		}
		return nil
	})
	if err != nil {
		return b, err
	}
	if order.Path == "" {
		return b, mongoerr.New(5339902, "Range-based bounds require sortBy a single field")
	}
	if _, direction := order.Spec.First(); bson.ToDouble(direction) < 0 {
		return b, mongoerr.New(8947401, "Range-based bounds require a non-descending sortBy")
	}
	b.at, err = expr.Parse(bson.String("$"+order.Path), p.Expr)
	return b, err
}

// parse reads [lower, upper].
func (b *Bounds) parse(name string, v bson.Value, p *parsing, check func(bson.Value) error) error {
	if v.Type != bson.TypeArray || v.Doc().Len() != 2 {
		return mongoerr.New(mongoerr.FailedToParse, "Window bounds must be a 2-element array: %s: %s", name, v)
	}
	i := 0
	for x := range v.Doc().Values() {
		bound, err := parseBound(x, p, check)
		if err != nil {
			return err
		}
		if i == 0 {
			b.Lower = bound
		} else {
			b.Upper = bound
		}
		i++
	}
	if !b.Lower.Unbounded && !b.Upper.Unbounded && bson.Compare(b.Lower.distance(), b.Upper.distance()) > 0 {
		return mongoerr.New(5339900, "Lower bound must not exceed upper bound: %s", bson.Document(b.serialize()))
	}
	return nil
}

// isInt32 reports whether v is an integer that fits into an int.
func isInt32(v bson.Value) bool {
	n, ok := bson.ExactInt64(v)
	return ok && n == int64(int32(n))
}

// parseBound reads a keyword, or a constant expression that check accepts.
func parseBound(v bson.Value, p *parsing, check func(bson.Value) error) (Bound, error) {
	switch {
	case v.Type == bson.TypeString && v.Str() == "unbounded":
		return Bound{Unbounded: true}, nil
	case v.Type == bson.TypeString && v.Str() == "current":
		return Bound{}, nil
	case v.Type == bson.TypeString:
		return Bound{}, mongoerr.New(mongoerr.FailedToParse, "Window bounds must be 'unbounded', 'current', or a number, found: %s", v.Str())
	}
	e, err := expr.Parse(v, p.reducing())
	if err != nil {
		return Bound{}, err
	}
	by, ok := expr.Constant(e)
	if !ok {
		return Bound{}, mongoerr.New(mongoerr.FailedToParse, "Window bounds must be 'unbounded', 'current', or a constant number, found: %s", v)
	}
	return Bound{By: by}, check(by)
}

func (b Bounds) serialize() bson.Doc {
	name := "documents"
	if b.Range {
		name = "range"
	}
	out := new(bson.Builder)
	out.Value(name, bson.Array(b.Lower.serialize(), b.Upper.serialize()))
	if b.Unit != "" {
		out.String("unit", b.Unit)
	}
	return out.Finish()
}

func (b Bound) serialize() bson.Value {
	switch {
	case b.Unbounded:
		return bson.String("unbounded")
	case b.By.IsMissing():
		return bson.String("current")
	}
	return b.By
}
