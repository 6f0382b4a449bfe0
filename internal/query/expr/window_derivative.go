package expr

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// derivative is the change between the first and the last document of a window
// per unit of the sort: null with one document, or if both are at the
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
	if err := d.checkPlaces(x0, x1); err != nil {
		return bson.Value{}, err
	}
	run, err := evalSubtract(env, x1, x0)
	if err != nil {
		return bson.Value{}, err
	}
	rise, err := evalSubtract(env, y1, y0)
	if err != nil {
		return bson.Value{}, err
	}
	if rise.IsNullish() {
		return bson.Value{}, mongoerr.New(mongoerr.Code(5624903), "$derivative input must not be null or missing")
	}
	if rise.IsNumber() && bson.ToDecimal(run).IsZero() {
		return bson.Null, nil
	}
	quotient, err := evalDivide(env, rise, run)
	if err != nil || d.unit == "" {
		return quotient, err
	}
	p := product{long: 1, double: 1, widest: bson.TypeInt32}
	p.multiply(quotient)
	p.multiply(bson.Int64(d.millis))
	return p.value(env), nil
}

// checkPlaces demands that both places in the sort are dates if there is a
// unit, else numbers.
func (d *derivative) checkPlaces(x0, x1 bson.Value) error {
	dates := 0
	for _, x := range []bson.Value{x0, x1} {
		if x.Type == bson.TypeDate {
			dates++
		}
	}
	switch {
	case d.unit != "":
		if dates < 2 {
			return mongoerr.New(mongoerr.Code(5624900), "$derivative with 'unit' expects the sortBy field to be a Date")
		}
	case dates > 0:
		return mongoerr.New(mongoerr.Code(5624901), "$derivative where the sortBy is a Date requires an 'unit'")
	case !x0.IsNumber() || !x1.IsNumber():
		return mongoerr.New(mongoerr.Code(5624902), "$derivative (with no 'unit') expects the sortBy field to be numeric")
	}
	return nil
}

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
	nans int        // of them with a NaN
}

func (i *integral) Add(env *Env) error {
	v, err := i.point(env)
	if err != nil {
		return err
	}
	return i.enter(v.Clone())
}

// enter adds a point after the last.
func (i *integral) enter(v bson.Value) error {
	if err := i.check(v); err != nil {
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
	if hasNaN(v) {
		i.nans++
	}
	return nil
}

// check demands a number, and a place that is a date if there is a unit,
// else a number.
func (i *integral) check(point bson.Value) error {
	x, y := ends(point)
	switch {
	case !y.IsNumber() || !x.IsNumber() && x.Type != bson.TypeDate:
		return mongoerr.New(mongoerr.Code(5423900), "The input value of $integral window function must be a vector of 2 value, "+
			"the first value must be numeric or date type and the second must be numeric.")
	case i.unit != "" && x.Type != bson.TypeDate:
		return mongoerr.New(mongoerr.Code(5423901), "$integral with 'unit' expects the sortBy field to be a Date")
	case i.unit == "" && x.Type == bson.TypeDate:
		return mongoerr.New(mongoerr.Code(5423902), "$integral (with no 'unit') expects the sortBy field to be numeric")
	}
	return nil
}

func hasNaN(point bson.Value) bool {
	x, y := ends(point)
	return x.IsNaN() || y.IsNaN()
}

// trapezoid is the area between two points, 0 if one has a NaN.
func (i *integral) trapezoid(a, b bson.Value) (bson.Value, error) {
	if hasNaN(a) || hasNaN(b) {
		return bson.Int32(0), nil
	}
	env := &Env{}
	x0, y0 := ends(a)
	x1, y1 := ends(b)
	dx, err := evalSubtract(env, x1, x0)
	if err != nil {
		return bson.Value{}, err
	}
	height, err := AddNumbers(env, y0, y1)
	if err != nil {
		return bson.Value{}, err
	}
	p := product{long: 1, double: 1, widest: bson.TypeInt32}
	p.multiply(height)
	p.multiply(dx)
	return evalDivide(env, p.value(env), bson.Double(2))
}

func (i *integral) Result() (bson.Value, error) {
	switch {
	case i.n == 0:
		return bson.Null, nil
	case i.nans > 0:
		return bson.Double(math.NaN()), nil
	case i.unit == "":
		return i.area.value(), nil
	}
	return evalDivide(&Env{}, i.area.value(), bson.Int64(i.millis))
}

func (i *integral) Size() int { return 256 + len(i.last.Data) }

// slidingIntegral is an integral as a slidingState.
type slidingIntegral struct{ *integral }

func (s slidingIntegral) add(_ *Env, _ *queue, v bson.Value) error { return s.enter(v) }

func (s slidingIntegral) remove(_ *Env, q *queue, v bson.Value) error {
	s.n--
	if hasNaN(v) {
		s.nans--
	}
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
