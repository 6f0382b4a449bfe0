package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	registerCovariance("$covariancePop", 0)
	registerCovariance("$covarianceSamp", 1)
}

// registerCovariance registers a covariance, which only windows have. less is
// by how much the divisor is less than the number of pairs.
func registerCovariance(name string, less int64) {
	windowFunctions[name] = func(p *parser, name string, arg bson.Value, _ WindowOrder) (*WindowSpec, error) {
		e, err := p.operand(arg)
		if err != nil {
			return nil, err
		}
		w := &WindowSpec{Name: name, exprs: []Expr{e}}
		w.print = func() bson.Value { return w.exprs[0].serialize() }
		w.grow = func(*Env) (Accumulator, error) {
			return &gatherer{&covariance{less: less}, w.exprs[0]}, nil
		}
		w.slide = func(*Env) (Sliding, error) {
			return &slider{state: slidingCovariance{&covariance{less: less}}, input: w.exprs[0].Eval}, nil
		}
		return w, nil
	}
}

// covariance is that of pairs of numbers: a value that is no array of two numbers is
// left out. The sum of products of the deviations is updated with each pair
// that enters or leaves. Pairs with an infinity or NaN are summed separately, so that
// they leave no trace when they leave.
type covariance struct {
	less      int64
	pairs     int64 // of finite numbers
	x, y      removableSum
	products  summation // of the deviations from the means
	notFinite removableSum
}

// covarianceBytes is the size of a covariance.
const covarianceBytes = 512

// pair is v as a pair of numbers.
func pair(v bson.Value) (x, y bson.Value, ok bool) {
	if v.Type != bson.TypeArray {
		return x, y, false
	}
	n := 0
	for it := v.Doc().Iter(); it.Next(); n++ {
		switch {
		case !it.Value.IsNumber() || n == 2:
			return x, y, false
		case n == 0:
			x = it.Value
		default:
			y = it.Value
		}
	}
	return x, y, n == 2
}

func isFinite(v bson.Value) bool { return !v.IsNaN() && infinity(v) == 0 }

func (c *covariance) add(env *Env, v bson.Value) error {
	x, y, ok := pair(v)
	if !ok {
		return nil
	}
	if !isFinite(x) || !isFinite(y) {
		c.updateNotFinite(x, y, 1)
		return nil
	}
	before, err := mean(env, &c.x)
	if err != nil {
		return err
	}
	c.pairs++
	c.x.update(x, 1)
	c.y.update(y, 1)
	after, err := mean(env, &c.y)
	if err != nil {
		return err
	}
	return c.updateProducts(env, x, y, before, after, 1)
}

func (c *covariance) remove(env *Env, v bson.Value) error {
	x, y, ok := pair(v)
	if !ok {
		return nil
	}
	if !isFinite(x) || !isFinite(y) {
		c.updateNotFinite(x, y, -1)
		return nil
	}
	if c.pairs == 1 {
		c.pairs, c.x, c.y, c.products = 0, removableSum{}, removableSum{}, summation{}
		return nil
	}
	after, err := mean(env, &c.y)
	if err != nil {
		return err
	}
	c.pairs--
	c.x.update(x, -1)
	c.y.update(y, -1)
	before, err := mean(env, &c.x)
	if err != nil {
		return err
	}
	return c.updateProducts(env, x, y, before, after, -1)
}

func (c *covariance) updateNotFinite(x, y bson.Value, n int64) {
	for _, v := range []bson.Value{x, y} {
		if !isFinite(v) {
			c.notFinite.update(v, n)
		}
	}
}

// updateProducts adds n times (x - meanX)(y - meanY).
func (c *covariance) updateProducts(env *Env, x, y, meanX, meanY bson.Value, n int64) error {
	dx, err := evalSubtract(env, x, meanX)
	if err != nil {
		return err
	}
	dy, err := evalSubtract(env, y, meanY)
	if err != nil {
		return err
	}
	p := product{long: 1, double: 1, widest: bson.TypeInt32}
	p.multiply(dx)
	p.multiply(dy)
	v := p.value(env)
	if n < 0 {
		v = negated(v)
	}
	c.products.add(v)
	return nil
}

// mean is the mean of the numbers in s, 0 without any.
func mean(env *Env, s *removableSum) (bson.Value, error) {
	if s.count() == 0 {
		return bson.Int32(0), nil
	}
	return evalDivide(env, s.value(), bson.Double(float64(s.count())))
}

func (c *covariance) value() (bson.Value, error) {
	switch {
	case c.pairs <= c.less:
		return bson.Null, nil
	case c.pairs == 1:
		return bson.Double(0), nil
	case c.notFinite.count() > 0:
		return c.notFinite.value(), nil
	}
	return evalDivide(&Env{}, c.products.sum(), bson.Double(float64(c.pairs-c.less)))
}

func (c *covariance) Result() (bson.Value, error) { return c.value() }
func (c *covariance) Size() int                   { return covarianceBytes }

// slidingCovariance is a covariance as a slidingState.
type slidingCovariance struct{ *covariance }

func (s slidingCovariance) add(env *Env, _ *queue, v bson.Value) error {
	return s.covariance.add(env, v)
}

func (s slidingCovariance) remove(env *Env, _ *queue, v bson.Value) error {
	return s.covariance.remove(env, v)
}

func (s slidingCovariance) result(*queue) (bson.Value, error) { return s.value() }
func (s slidingCovariance) size() int                         { return covarianceBytes }
