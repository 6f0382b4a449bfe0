package pipeline

import (
	"context"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

const (
	// maxDensified is how many documents one $densify may make
	// (internalQueryMaxAllowedDensifyDocs).
	maxDensified = 500000
	// maxDensifyBytes bounds the memory for its partitions
	// (internalDocumentSourceDensifyMaxMemoryBytes).
	maxDensifyBytes = 100 << 20
)

// Densify makes the documents that are missing between others. It reads them
// sorted, see parseDensify.
type Densify struct {
	arg       bson.Value
	field     []string
	partition [][]string
	step      bson.Value
	unit      string // "" for numbers
	// bounds are [lo, hi), Missing for those of the documents.
	lo, hi bson.Value
	// each says that each partition has bounds of its own ("partition").
	each bool
	next expr.Expr // the value after $$value
}

// parseDensify makes {$densify: {field, partitionByFields, range}} a sort and
// the Densify that reads it.
func parseDensify(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "The $densify stage specification must be an object, found %s", arg.Type)
	}
	v, err := readSpec("$densify", arg.Doc(), stringField("field").must(), arrayField("partitionByFields"), docField("range").must())
	if err != nil {
		return nil, err
	}
	d := &Densify{arg: arg}
	name := v[0].Str()
	if d.field, err = splitPath(name); err != nil {
		return nil, err
	}
	var sorted bson.Builder
	if !v[1].IsMissing() {
		if err := d.parsePartition(v[1].Doc(), name); err != nil {
			return nil, err
		}
	}
	if err := d.parseRange(v[2].Doc()); err != nil {
		return nil, err
	}
	if d.each {
		for _, path := range d.partition {
			sorted.Int32(strings.Join(path, "."), 1)
		}
	}
	s, err := parseSort(bson.Document(sorted.Int32(name, 1).Finish()), p)
	if err != nil {
		return nil, err
	}
	return &sequence{name: "$densify", arg: arg, stages: []Stage{s, d}}, nil
}

func (d *Densify) parsePartition(list bson.Doc, name string) error {
	for e := range list.Values() {
		if e.Type != bson.TypeString {
			return wrongType("$densify.partitionByFields", e, []bson.Type{bson.TypeString})
		}
		if e.Str() == name || strings.HasPrefix(e.Str(), name+".") {
			return mongoerr.New(8993000, "BSON field '$densify.partitionByFields' contains the field that is being densified")
		}
		if strings.HasPrefix(name, e.Str()+".") {
			return mongoerr.New(9554500, "BadValue, neither 'field' nor 'partitionByFields' may be a prefix of the other: %s, %s", name, e.Str())
		}
		path, err := splitPath(e.Str())
		if err != nil {
			return err
		}
		d.partition = append(d.partition, path)
	}
	return nil
}

func (d *Densify) parseRange(spec bson.Doc) error {
	v, err := readSpec("$densify.range", spec, anyField("bounds").must(), field{name: "step", types: numberTypes}.must(), stringField("unit"))
	if err != nil {
		return err
	}
	if d.step = v[1]; bson.NumberSign(d.step) <= 0 {
		return mongoerr.New(5733401, "The step parameter in a range statement must be a strictly positive numeric value")
	}
	next := `{$add: ["$$value", "$$step"]}`
	if !v[2].IsMissing() {
		if _, ok := bson.ExactInt64(d.step); !ok {
			return mongoerr.New(6586400, "The step parameter in a range statement must be a whole number when densifying a date range")
		}
		d.unit = v[2].Str()
		next = `{$dateAdd: {startDate: "$$value", unit: "$$unit", amount: "$$step"}}`
		units := []string{"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"}
		if !slices.Contains(units, d.unit) {
			return mongoerr.New(mongoerr.FailedToParse, "unknown time unit value: %s", d.unit)
		}
	}
	if d.next, err = expr.Parse(bson.MustParseValue(next), &expr.Options{Vars: []string{"value", "step", "unit"}}); err != nil {
		return err
	}
	return d.parseBounds(v[0])
}

func (d *Densify) parseBounds(v bson.Value) error {
	switch v.Type {
	case bson.TypeString:
		switch v.Str() {
		case "full":
			return nil
		case "partition":
			if len(d.partition) == 0 {
				return mongoerr.New(5733408, "One may not specify the bounds as 'partition' without specifying a non-empty array of partitionByFields. You may have meant to specify 'full' bounds.")
			}
			d.each = true
			return nil
		}
		return mongoerr.New(5946802, "Bounds string must either be 'full' or 'partition'")
	case bson.TypeArray:
	default:
		return mongoerr.New(5733404, "Bounds must be either an array or a string")
	}
	list := v.Doc().Slice()
	if len(list) != 2 {
		return mongoerr.New(5733403, "A bounding array in a range statement must have exactly two elements")
	}
	d.lo, d.hi = list[0], list[1]
	return d.checkBounds()
}

// checkBounds requires two dates or two numbers in order, numbers of one type with the
// step.
func (d *Densify) checkBounds() error {
	if bson.Compare(d.lo, d.hi) > 0 {
		return mongoerr.New(5733402, "A bounding array must be an ascending array of either two dates or two numbers")
	}
	const mixed = "A bounding array must contain either both dates or both numeric types"
	switch {
	case d.lo.IsNumber():
		switch {
		case d.unit != "":
			return mongoerr.New(5733409, "Numeric bounds may not have unit parameter")
		case !d.hi.IsNumber():
			return mongoerr.New(5733406, mixed)
		case d.lo.Type != d.hi.Type || d.lo.Type != d.step.Type:
			return mongoerr.New(5876900, "Upper bound, lower bound, and step must all have the same type")
		}
	case d.lo.Type == bson.TypeDate:
		switch {
		case d.hi.Type != bson.TypeDate:
			return mongoerr.New(5733405, mixed)
		case d.unit == "":
			return mongoerr.New(5733410, "A bounding array of dates must specify a unit")
		}
	default:
		return mongoerr.New(5946800, "Explicit bounds must be numeric or dates")
	}
	return nil
}

// Name is the stage's name.
func (d *Densify) Name() string { return "$_internalDensify" }

// Serialize is the specification.
func (d *Densify) Serialize() bson.Value { return d.arg }

// Open fills the gaps between the documents of in.
func (d *Densify) Open(in Iterator, r *Run) (Iterator, error) {
	env := expr.NewEnv(r.Env.Now, bson.Value{}, d.step, bson.String(d.unit))
	env.Memory = r.Env.Memory
	return &densifying{d: d, in: in, r: r, env: env.WithRoot(bson.Empty), table: map[string]*densified{}, memory: r.Env.Hold()}, nil
}

// densified is a partition: its fields, and the value to make next, Missing
// if there is none yet.
type densified struct {
	fields bson.Doc
	next   bson.Value
}

// densifying runs a Densify. It makes documents for the partition of the next document,
// up to that document, and after the last document for all partitions.
type densifying struct {
	memory memory.Holding

	d     *Densify
	in    Iterator
	r     *Run
	env   *expr.Env
	table map[string]*densified
	order []*densified
	bytes int
	made  int

	ahead bson.Doc // waits for the gap before it to be filled, or nil
	meta  bson.Doc
	limit bson.Value // of the next document
	part  *densified // whose gap is filled, or nil
	like  bson.Doc   // the fields of the partition as the next document has them
	least bson.Value // of all documents, for "full"
	most  bson.Value // the same
	ended bool
	at    int // in order, once ended
}

func (w *densifying) Close() {
	w.in.Close()
	w.table, w.order = nil, nil
	w.memory.Release()
}

func (w *densifying) Next(ctx context.Context) (bson.Doc, error) {
	for {
		if err := w.r.check(ctx); err != nil {
			return nil, err
		}
		if w.part != nil {
			if d, err := w.fill(); d != nil || err != nil {
				return d, err
			}
			w.part = nil
		}
		if w.ahead != nil {
			d := w.ahead
			w.ahead, w.r.Meta = nil, w.meta
			return d, nil
		}
		if w.ended {
			if w.at == len(w.order) {
				return nil, nil
			}
			w.end()
			continue
		}
		d, err := w.in.Next(ctx)
		if err != nil {
			return nil, err
		}
		if d == nil {
			w.ended = true
			if err := w.empty(); err != nil {
				return nil, err
			}
			continue
		}
		if err := w.take(d); err != nil {
			return nil, err
		}
	}
}

// empty makes the partition for explicit bounds without documents.
func (w *densifying) empty() error {
	if len(w.order) > 0 || w.d.lo.IsMissing() || len(w.d.partition) > 0 {
		return nil
	}
	_, err := w.partition(bson.Empty)
	return err
}

// take processes the next document.
func (w *densifying) take(d bson.Doc) error {
	w.ahead, w.meta = d, w.r.Meta
	v := at(d, w.d.field)
	if v.IsNullish() {
		return nil
	}
	if dates := w.d.unit != ""; dates != (v.Type == bson.TypeDate) || !dates && !v.IsNumber() {
		return mongoerr.New(6053600, "Densify field type must be numeric with no unit, or a date with a unit, found %s", v.Type)
	}
	p, err := w.partition(d)
	if err != nil {
		return err
	}
	w.most = v.Clone()
	if w.least.IsMissing() {
		w.least = w.most
	}
	if p.next.IsMissing() {
		switch {
		case !w.d.lo.IsMissing():
			p.next = w.d.lo
		case w.d.each:
			p.next = w.most
		default:
			p.next = w.least
		}
	}
	w.part, w.limit = p, w.most
	if !w.d.hi.IsMissing() && bson.Compare(w.limit, w.d.hi) > 0 {
		w.limit = w.d.hi
	}
	return nil
}

// partition finds the partition of a document.
func (w *densifying) partition(d bson.Doc) (*densified, error) {
	var key []byte
	fields := bson.Empty
	for _, path := range w.d.partition {
		v, err := w.env.Lookup(d, path)
		if err != nil {
			return nil, err
		}
		if err := partitionable(v); err != nil {
			return nil, err
		}
		key = keystring.Append(key, v, false, w.r.Env.Collator)
		if !v.IsMissing() {
			fields = setPath(fields, path, v)
		}
	}
	w.like = fields
	p := w.table[string(key)]
	if p == nil {
		p = &densified{fields: fields.Clone()}
		w.table[string(key)] = p
		w.order = append(w.order, p)
		if w.bytes += len(key) + len(fields) + groupOverhead; w.bytes > maxDensifyBytes {
			return nil, mongoerr.New(6007200, "$densify exceeded memory limit of %d", maxDensifyBytes)
		}
		if err := w.memory.Set(w.bytes); err != nil {
			return nil, err
		}
		if !w.d.lo.IsMissing() {
			p.next = w.d.lo
		}
	}
	return p, nil
}

// fill makes the next document of the gap below limit; nil at its end. It skips the
// value of the next document.
func (w *densifying) fill() (bson.Doc, error) {
	p := w.part
	c := bson.Compare(p.next, w.limit)
	if c > 0 || c == 0 && (w.ahead == nil && !w.d.hi.IsMissing() || w.ahead != nil && bson.Compare(p.next, at(w.ahead, w.d.field)) < 0) {
		return nil, nil
	}
	v := p.next
	if c == 0 && w.ahead != nil {
		// Later values are of the type of the document.
		v = at(w.ahead, w.d.field)
	}
	w.env.SetVar(0, v)
	next, err := w.d.next.Eval(w.env)
	if err != nil {
		return nil, err
	}
	p.next = next
	if c == 0 && w.ahead != nil {
		return nil, nil
	}
	if w.made++; w.made > maxDensified {
		return nil, mongoerr.New(5897900, "Generated %d documents in $densify, which is over the limit of %d. Increase the 'internalQueryMaxAllowedDensifyDocs' parameter to allow more generated documents", w.made, maxDensified)
	}
	w.r.Meta = nil
	return setPath(w.like, w.d.field, v), nil
}

// end starts the gap between the last document of the next partition and the end of the
// bounds.
func (w *densifying) end() {
	p := w.order[w.at]
	w.at++
	switch {
	case !w.d.hi.IsMissing():
		w.limit = w.d.hi
	case w.d.each:
		return
	default:
		w.limit = w.most
	}
	w.part, w.like = p, p.fields
}
