package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
)

// derivative is the change between the first and the last document of a window
// per unit of the sort: null with one document, or where both stand at the
// same place.
type derivative struct {
	*calculus
	first, last bson.Value // points
}

func (d *derivative) Add(env *Env) error {
	v, err := d.point(env)
	if err != nil {
		return err
	}
	if d.first.IsMissing() {
		d.first = v.Clone()
	}
	d.last = v.Clone()
	return nil
}

func (d *derivative) Result() (bson.Value, error) { return d.between(d.first, d.last) }
func (d *derivative) Size() int                   { return 96 + len(d.first.Data) + len(d.last.Data) }

func (d *derivative) between(first, last bson.Value) (bson.Value, error) {
	if first.IsMissing() {
		return bson.Null, nil
	}
	env := &Env{}
	x0, y0 := ends(first)
	x1, y1 := ends(last)
	if !isRate(y0) || !isRate(y1) {
		return bson.Null, nil
	}
	for _, x := range []*bson.Value{&x0, &x1} {
		var err error
		if *x, err = d.place(*x, 5624900, 5624901, 5624902); err != nil {
			return bson.Value{}, err
		}
	}
	dx, err := evalSubtract(env, x1, x0)
	if err != nil {
		return bson.Value{}, err
	}
	dy, err := evalSubtract(env, y1, y0)
	if err != nil {
		return bson.Value{}, err
	}
	if bson.ToDecimal(dx).IsZero() {
		return bson.Null, nil
	}
	quotient, err := evalDivide(env, dy, dx)
	if err != nil || d.unit == "" {
		return quotient, err
	}
	p := product{long: 1, double: 1, widest: bson.TypeInt32}
	p.multiply(quotient)
	p.multiply(bson.Int64(d.millis))
	return p.value(env), nil
}

// isRate says whether a derivative can be taken of v.
func isRate(v bson.Value) bool { return v.IsNumber() }

// slidingDerivative is a derivative as a slidingState.
type slidingDerivative struct{ *derivative }

func (slidingDerivative) add(*Env, *queue, bson.Value) error    { return nil }
func (slidingDerivative) remove(*Env, *queue, bson.Value) error { return nil }
func (slidingDerivative) size() int                             { return 0 }

func (s slidingDerivative) result(q *queue) (bson.Value, error) {
	if q.len() == 0 {
		return bson.Null, nil
	}
	return s.between(q.at(0), q.at(q.len()-1))
}

// integral is the area under the line through the documents of a window, by
// trapezoids.
type integral struct {
	*calculus
	area removableSum
	last bson.Value // point
	n    int        // points
}

func (i *integral) Add(env *Env) error {
	v, err := i.point(env)
	if err != nil {
		return err
	}
	return i.enter(v.Clone())
}

// enter takes in a point behind the last.
func (i *integral) enter(v bson.Value) error {
	if _, err := i.at(v); err != nil {
		return err
	}
	if i.n > 0 {
		a, err := i.trapezoid(i.last, v)
		if err != nil {
			return err
		}
		i.area.update(a, 1)
	}
	i.last, i.n = v, i.n+1
	return nil
}

// at is the place of a point.
func (i *integral) at(point bson.Value) (bson.Value, error) {
	x, _ := ends(point)
	return i.place(x, 5423901, 5423902, 5423900)
}

// trapezoid is the area between two points, 0 where one has no number.
func (i *integral) trapezoid(a, b bson.Value) (bson.Value, error) {
	env := &Env{}
	_, y0 := ends(a)
	_, y1 := ends(b)
	if !y0.IsNumber() || !y1.IsNumber() {
		return bson.Double(0), nil
	}
	x0, err := i.at(a)
	if err != nil {
		return bson.Value{}, err
	}
	x1, err := i.at(b)
	if err != nil {
		return bson.Value{}, err
	}
	dx, err := evalSubtract(env, x1, x0)
	if err != nil {
		return bson.Value{}, err
	}
	height, err := AddNumbers(env, y0, y1)
	if err != nil {
		return bson.Value{}, err
	}
	p := product{long: 1, double: 1, widest: bson.TypeInt32}
	p.multiply(dx)
	p.multiply(height)
	return evalDivide(env, p.value(env), bson.Double(2))
}

func (i *integral) Result() (bson.Value, error) {
	switch {
	case i.n == 0:
		return bson.Null, nil
	case i.area.count() == 0:
		return bson.Double(0), nil
	case i.unit == "":
		return i.area.value(), nil
	}
	return evalDivide(&Env{}, i.area.value(), bson.Double(float64(i.millis)))
}

func (i *integral) Size() int { return 256 + len(i.last.Data) }

// slidingIntegral is an integral as a slidingState.
type slidingIntegral struct{ *integral }

func (s slidingIntegral) add(_ *Env, _ *queue, v bson.Value) error { return s.enter(v) }

func (s slidingIntegral) remove(_ *Env, q *queue, v bson.Value) error {
	s.n--
	if q.len() == 0 {
		return nil
	}
	a, err := s.trapezoid(v, q.at(0))
	if err == nil {
		s.area.update(a, -1)
	}
	return err
}

func (s slidingIntegral) result(*queue) (bson.Value, error) { return s.Result() }
func (s slidingIntegral) size() int                         { return s.Size() }
