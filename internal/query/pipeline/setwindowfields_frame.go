package pipeline

import (
	"context"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// windowFunction computes one output over a partition, document by document.
type windowFunction interface {
	// at returns the output for document i; calls are in order from 0.
	at(ctx context.Context, i int) (bson.Value, error)
	// needs returns the first document that later calls will read.
	needs() int
	// size is an estimate of the bytes held.
	size() int
}

// start makes the function of an output for a partition.
func (o *WindowOutput) start(p *partition, env *expr.Env) (windowFunction, error) {
	switch {
	case o.Shift != nil:
		return &shifting{s: o.Shift, p: p, env: env}, nil
	case o.Fill != nil:
		return &filling{f: o.Fill, p: p, env: env}, nil
	}
	w := window{b: o.Bounds, p: p, env: env}
	if o.Bounds.Lower.Unbounded {
		a, err := o.Spec.Growing(env)
		return &growing{window: w, acc: a}, err
	}
	s, err := o.Spec.Sliding(env)
	return &sliding{window: w, acc: s}, err
}

// window follows the upper bound of a window through a partition.
type window struct {
	b    Bounds
	p    *partition
	env  *expr.Env
	next int // documents before it are within the upper bound
}

// within reports whether document j is within the upper bound for document i, and
// returns it; nil after the end of the partition.
func (w *window) within(ctx context.Context, i, j int, at bson.Value) (bson.Doc, bool, error) {
	if w.b.counts(w.b.Upper) && j > i+w.b.Upper.documents() {
		return nil, false, nil
	}
	d, err := w.p.at(ctx, j)
	if err != nil || d == nil {
		return nil, false, err
	}
	if w.b.Upper.Unbounded || w.b.counts(w.b.Upper) {
		return d, true, nil
	}
	limit, err := w.b.limit(w.env, at, w.b.Upper)
	if err != nil {
		return nil, false, err
	}
	x, err := w.b.at.Eval(w.env.WithRoot(d))
	return d, bson.Compare(x, limit) <= 0, err
}

// place returns the value from which the range of document i is measured.
func (w *window) place(ctx context.Context, i int) (bson.Value, error) {
	if !w.b.Range {
		return bson.Value{}, nil
	}
	d, err := w.p.at(ctx, i)
	if err != nil {
		return bson.Value{}, err
	}
	x, err := w.b.at.Eval(w.env.WithRoot(d))
	switch {
	case err != nil:
		return x, err
	case w.b.Unit != "" && x.Type != bson.TypeDate:
		return x, mongoerr.New(5429513, "Invalid range: Expected the sortBy field to be a Date, but it was %s", typeName(x))
	case w.b.Unit == "" && x.Type == bson.TypeDate:
		return x, mongoerr.New(5429413, "Invalid range: For windows that involve date or time ranges, a unit must be provided.")
	case w.b.Unit == "" && !x.IsNumber():
		return x, mongoerr.New(5429414, "Invalid range: Expected the sortBy field to be a number, but it was %s", typeName(x))
	}
	return x, nil
}

func typeName(v bson.Value) string {
	if v.IsMissing() {
		return "missing"
	}
	return v.Type.String()
}

// counts reports whether a bound is a number of documents. In a range that is only so
// for the current document, excluding those at the same place.
func (b *Bounds) counts(bound Bound) bool {
	return !bound.Unbounded && (!b.Range || bound.By.IsMissing())
}

// limit returns the value of a range's bound around a place. Numbers are added as
// decimals, which matters only for documents exactly at the bound.
func (b *Bounds) limit(env *expr.Env, at bson.Value, bound Bound) (bson.Value, error) {
	by := bound.distance()
	if b.Unit == "" {
		return bson.Decimal(bson.ToDecimal(at).Add(bson.ToDecimal(by))), nil
	}
	n, _ := bson.ExactInt64(by)
	ms, ok := expr.AddUnits(at.Date(), b.Unit, n)
	if !ok {
		// The bound is after all dates.
		ms = math.MaxInt64
		if n < 0 {
			ms = math.MinInt64
		}
	}
	return bson.Date(ms), nil
}

// growing is a window that starts at the start of the partition.
type growing struct {
	window
	acc    expr.Accumulator
	result bson.Value // of the last call, if nothing has changed since
}

func (g *growing) needs() int { return g.next }
func (g *growing) size() int  { return g.acc.Size() }

func (g *growing) at(ctx context.Context, i int) (bson.Value, error) {
	at, err := g.place(ctx, i)
	if err != nil {
		return bson.Value{}, err
	}
	for {
		d, in, err := g.within(ctx, i, g.next, at)
		if err != nil {
			return bson.Value{}, err
		}
		if !in {
			break
		}
		if err := g.acc.Add(g.env.WithRoot(d)); err != nil {
			return bson.Value{}, err
		}
		g.result = bson.Value{}
		g.next++
	}
	if g.result.IsMissing() {
		v, err := g.acc.Result()
		if err != nil {
			return bson.Value{}, err
		}
		g.result = orNull(v)
	}
	return g.result, nil
}

func orNull(v bson.Value) bson.Value {
	if v.IsMissing() {
		return bson.Null
	}
	return v
}

// sliding is a window with a lower bound.
type sliding struct {
	window
	acc   expr.Sliding
	first int // documents before it have left
}

func (s *sliding) needs() int { return s.first }
func (s *sliding) size() int  { return s.acc.Size() }

func (s *sliding) at(ctx context.Context, i int) (bson.Value, error) {
	at, err := s.place(ctx, i)
	if err != nil {
		return bson.Value{}, err
	}
	for {
		d, in, err := s.within(ctx, i, s.next, at)
		if err != nil {
			return bson.Value{}, err
		}
		if !in {
			break
		}
		if s.first == s.next {
			if before, err := s.before(i, s.next, d, at); err != nil {
				return bson.Value{}, err
			} else if before {
				s.first, s.next = s.next+1, s.next+1
				continue
			}
		}
		if err := s.acc.Add(s.env.WithRoot(d)); err != nil {
			return bson.Value{}, err
		}
		s.next++
	}
	if err := s.leave(ctx, i, at); err != nil {
		return bson.Value{}, err
	}
	v, err := s.acc.Result()
	return orNull(v), err
}

// before reports whether document j, d, is before the lower bound for i.
func (s *sliding) before(i, j int, d bson.Doc, at bson.Value) (bool, error) {
	if s.b.counts(s.b.Lower) {
		return j < i+s.b.Lower.documents(), nil
	}
	limit, err := s.b.limit(s.env, at, s.b.Lower)
	if err != nil {
		return false, err
	}
	x, err := s.b.at.Eval(s.env.WithRoot(d))
	return bson.Compare(x, limit) < 0, err
}

// leave removes the documents before the lower bound.
func (s *sliding) leave(ctx context.Context, i int, at bson.Value) error {
	for ; s.first < s.next; s.first++ {
		var d bson.Doc
		if s.b.Range {
			var err error
			if d, err = s.p.at(ctx, s.first); err != nil {
				return err
			}
		}
		before, err := s.before(i, s.first, d, at)
		if err != nil || !before {
			return err
		}
		if err := s.acc.Remove(s.env); err != nil {
			return err
		}
	}
	return nil
}
