package pipeline

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// windowFill is {$linearFill: expression}: nulls between two numbers are interpolated
// linearly.
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
	right     knot // the first number after the nulls, once it has been searched
	rightAt   int  // its position
	exhausted bool // there is none
	last      bson.Value
}

func (f *filling) needs() int { return f.next }
func (f *filling) size() int  { return 128 }

func (f *filling) knot(d bson.Doc) (k knot, err error) {
	env := f.env.WithRoot(d)
	if k.y, err = f.f.input.Eval(env); err != nil {
		return k, err
	}
	k.y = k.y.Clone()
	k.x, err = f.f.at.Eval(env)
	k.x = k.x.Clone()
	return k, err
}

// check requires a number or no value, at a place after the last one and of its type.
func (f *filling) check(k knot) error {
	if err := expr.CheckFill(k.y); err != nil {
		return err
	}
	if !k.x.IsNumber() && !isDated(k.x) {
		return mongoerr.New(mongoerr.TypeMismatch, "Value of the sortBy field must be numeric or a date, but found %s", typeName(k.x))
	}
	if f.last.IsMissing() {
		return nil
	}
	if bson.Equal(f.last, k.x) {
		return mongoerr.New(6050106, "There can be no repeated values in the sort field")
	}
	if isDated(f.last) != isDated(k.x) {
		return mongoerr.New(mongoerr.TypeMismatch, "Conflicting sort value types, previously received type %s, but found %s", f.last.Type, k.x.Type)
	}
	return nil
}

// isDated reports whether there is a date in v.
func isDated(v bson.Value) bool {
	return v.Type == bson.TypeDate || v.Type == bson.TypeTimestamp || v.Type == bson.TypeObjectID
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
	if err := f.check(k); err != nil {
		return bson.Value{}, err
	}
	f.last = k.x
	if !k.y.IsNullish() {
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

// lookAhead finds the first value behind document i.
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
		if !k.y.IsNullish() && !k.x.IsNullish() {
			f.right, f.rightAt = k, j
			return nil
		}
	}
}
