package pipeline

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// windowFill is {$linearFill: expression}: nulls between two numbers lie on the
// line through them.
type windowFill struct {
	input, at expr.Expr // at: the field of the sort
}

func parseLinearFill(arg bson.Value, order expr.WindowOrder, p *parsing) (*windowFill, error) {
	if order.Path == "" {
		return nil, mongoerr.New(605001, "$linearFill must be specified with a top level sortBy expression with exactly one element")
	}
	input, err := expr.Parse(arg, p.Expr)
	if err != nil {
		return nil, err
	}
	at, err := expr.Parse(bson.String("$"+order.Path), p.Expr)
	return &windowFill{input, at}, err
}

// knot is a document of a $linearFill: its place in the sort and its value.
type knot struct{ x, y bson.Value }

// filling runs a windowFill.
type filling struct {
	f         *windowFill
	p         *partition
	env       *expr.Env
	next      int
	left      knot // the last number before the current document
	right     knot // the first number behind the nulls, once it has been looked for
	rightAt   int  // where it stands
	exhausted bool // there is none
	last      bson.Value
}

func (f *filling) needs() int { return f.next }
func (f *filling) size() int  { return 128 }

func (f *filling) knot(d bson.Doc) (k knot, err error) {
	env := f.env.WithRoot(d)
	if k.x, err = f.f.at.Eval(env); err != nil {
		return k, err
	}
	if !k.x.IsNumber() && k.x.Type != bson.TypeDate {
		return k, mongoerr.New(mongoerr.TypeMismatch, "$linearFill sortBy field must be numeric or a date, but found %s", typeName(k.x))
	}
	if k.y, err = f.f.input.Eval(env); err != nil {
		return k, err
	}
	k.x, k.y = k.x.Clone(), orNull(k.y).Clone()
	return k, expr.CheckFill(k.y)
}

func (f *filling) at(ctx context.Context, i int) (bson.Value, error) {
	f.next = i + 1
	d, err := f.p.at(ctx, i)
	if err != nil {
		return bson.Value{}, err
	}
	k, err := f.knot(d)
	if err != nil {
		return bson.Value{}, err
	}
	if i > 0 {
		if bson.Equal(f.last, k.x) {
			return bson.Value{}, mongoerr.New(6050106, "There can be no repeated values in the sort field")
		}
		if (f.last.Type == bson.TypeDate) != (k.x.Type == bson.TypeDate) {
			return bson.Value{}, mongoerr.New(mongoerr.TypeMismatch, "Conflicting sort value types, previous and current types don't match: %s, %s", f.last.Type, k.x.Type)
		}
	}
	f.last = k.x
	if k.y.IsNumber() {
		f.left = k
		return k.y, nil
	}
	if f.left.x.IsMissing() {
		return bson.Null, nil
	}
	if err := f.lookAhead(ctx, i); err != nil || f.exhausted {
		return bson.Null, err
	}
	return expr.Interpolate(f.env, k.x, f.left.x, f.left.y, f.right.x, f.right.y)
}

// lookAhead finds the first number behind document i.
func (f *filling) lookAhead(ctx context.Context, i int) error {
	if f.exhausted || f.rightAt > i {
		return nil
	}
	for j := i + 1; ; j++ {
		d, err := f.p.at(ctx, j)
		if err != nil {
			return err
		}
		if d == nil {
			f.exhausted = true
			return nil
		}
		k, err := f.knot(d)
		if err != nil {
			return err
		}
		if k.y.IsNumber() {
			f.right, f.rightAt = k, j
			return nil
		}
	}
}
