package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// AddNumbers returns a + b, in the wider of their two types.
func AddNumbers(env *Env, a, b bson.Value) (bson.Value, error) {
	sum := addition{widest: bson.TypeInt32}
	sum.add(a)
	sum.add(b)
	return sum.value(env)
}

func init() {
	registerCalculus("$derivative", FrameRequired, func(c *calculus) (Accumulator, Sliding) {
		d := &derivative{calculus: c}
		return d, &slider{state: slidingDerivative{d}, input: c.point}
	})
	registerCalculus("$integral", FrameOptional, func(c *calculus) (Accumulator, Sliding) {
		i := &integral{calculus: c}
		return i, &slider{state: slidingIntegral{i}, input: c.point}
	})
}

// calculus is what $derivative and $integral share: {input, unit} over the
// field of the sort. A unit makes that field a date.
type calculus struct {
	name   string
	exprs  []Expr // input, and the field of the sort
	millis int64  // of the unit; 0 without one
	unit   string
}

func registerCalculus(name string, frame Frame, start func(c *calculus) (Accumulator, Sliding)) {
	windowFunctions[name] = func(p *parser, name string, arg bson.Value, by WindowOrder) (*WindowSpec, error) {
		c, err := p.calculus(name, arg, by)
		if err != nil {
			return nil, err
		}
		w := &WindowSpec{Name: name, Frame: frame, exprs: c.exprs, print: c.argument}
		w.grow = func(*Env) (Accumulator, error) { a, _ := start(c); return a, nil }
		w.slide = func(*Env) (Sliding, error) { _, s := start(c); return s, nil }
		return w, nil
	}
}

func (p *parser) calculus(name string, arg bson.Value, by WindowOrder) (*calculus, error) {
	if by.Spec == nil {
		return nil, failedToParse("%s requires a sortBy", name)
	}
	if by.Path == "" {
		return nil, failedToParse("%s requires a non-compound sortBy", name)
	}
	if arg.Type != bson.TypeDocument {
		return nil, failedToParse("%s expects an object", name)
	}
	c := &calculus{name: name}
	var input Expr
	for it := arg.Doc().Iter(); it.Next(); {
		var err error
		switch it.Key {
		case "input":
			input, err = p.operand(it.Value)
		case "unit":
			err = c.parseUnit(it.Value)
		default:
			err = failedToParse("%s got unexpected argument: %s", name, it.Key)
		}
		if err != nil {
			return nil, err
		}
	}
	if input == nil {
		return nil, failedToParse("%s requires an 'input' expression", name)
	}
	at, err := p.fieldPath("$" + by.Path)
	c.exprs = []Expr{input, at}
	return c, err
}

func (c *calculus) parseUnit(v bson.Value) error {
	if v.Type != bson.TypeString {
		return failedToParse("%s 'unit' must be a string, but got %s", c.name, v.Type)
	}
	c.unit = v.Str()
	u, ok := unitByName(c.unit)
	if !ok {
		return failedToParse("unknown time unit value: %s", c.unit)
	}
	if u > unitWeek {
		return mongoerr.New(mongoerr.Code(5490710), "unit must be 'week' or smaller")
	}
	c.millis = unitMillis[u]
	return nil
}

func (c *calculus) argument() bson.Value {
	b := new(bson.Builder).Value("input", c.exprs[0].serialize())
	if c.unit != "" {
		b.String("unit", c.unit)
	}
	return bson.Document(b.Finish())
}

// point is [place in the sort, input] of the current document.
func (c *calculus) point(env *Env) (bson.Value, error) {
	y, err := c.exprs[0].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	x, err := c.exprs[1].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	return env.array([]bson.Value{x, y})
}

// ends returns the two parts of a point.
func ends(point bson.Value) (x, y bson.Value) {
	it := point.Doc().Iter()
	it.Next()
	x = it.Value
	it.Next()
	return x, it.Value
}
