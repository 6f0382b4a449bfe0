package expr

import (
	"container/heap"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerN("$firstN", func(n int) state { return &firstNState{n: n} })
	registerN("$lastN", func(n int) state { return &lastNState{n: n} })
	registerN("$minN", func(n int) state { return &extremeN{n: n, sense: -1} })
	registerN("$maxN", func(n int) state { return &extremeN{n: n, sense: 1} })
}

// registerN registers an accumulator {$opN: {n, input}}, and the expression of
// the same name, whose input is an array.
func registerN(name string, newState func(n int) state) {
	accumulators[name] = func(p *parser, name string, arg bson.Value) (*AccumulatorSpec, error) {
		args, err := p.parseN(arg)
		if err != nil {
			return nil, err
		}
		return &AccumulatorSpec{Name: name, exprs: args[1:], init: args[0], print: printN,
			start: func(s *AccumulatorSpec, env *Env, init bson.Value) (Accumulator, error) {
				n, err := validN(env, init)
				if err != nil {
					return nil, err
				}
				return &gatherer{newState(n), s.exprs[0]}, nil
			}}, nil
	}
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		args, err := p.parseN(arg)
		if err != nil {
			return nil, err
		}
		return &recordCall{name, paramsN, func(env *Env, args []Expr) (bson.Value, error) {
			return evalN(env, args, newState)
		}, args}, nil
	})
}

var paramsN = []string{"n", "input"}

// parseN returns the expressions n and input.
func (p *parser) parseN(arg bson.Value) ([]Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(5787801), "specification must be an object; found %s", text(arg))
	}
	args, err := p.named(arg.Doc(), paramsN, func(field string) error {
		return mongoerr.New(mongoerr.Code(5787901), "Unknown argument for 'n' operator: %s", field)
	})
	switch {
	case err != nil:
		return nil, err
	case args[0] == nil:
		return nil, mongoerr.New(mongoerr.Code(5787906), "Missing value for 'n'")
	case args[1] == nil:
		return nil, mongoerr.New(mongoerr.Code(5787907), "Missing value for 'input'")
	}
	return args, nil
}

func printN(s *AccumulatorSpec) bson.Value {
	var b bson.Builder
	return bson.Document(b.Value("n", s.init.serialize()).Value("input", s.exprs[0].serialize()).Finish())
}

// maxN is the n that a larger one counts as: no group has more values.
const maxN = 1 << 31

// validN is n as a number of values.
func validN(env *Env, v bson.Value) (int, error) {
	if !v.IsNumber() {
		return 0, mongoerr.New(env.code(5787902, 7548606), "Value for 'n' must be of integral type, but found %s", text(v))
	}
	n, ok := bson.ExactInt64(v)
	if !ok {
		return 0, mongoerr.New(env.code(5787903, 7548606), "Value for 'n' must be of integral type, but found %s", text(v))
	}
	if n <= 0 {
		return 0, mongoerr.New(env.code(5787908, 7548606), "'n' must be greater than 0, found %d", n)
	}
	return int(min(n, maxN)), nil
}

func evalN(env *Env, args []Expr, newState func(n int) state) (bson.Value, error) {
	init, err := args[0].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	n, err := validN(env, init)
	if err != nil {
		return bson.Value{}, err
	}
	input, err := args[1].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if input.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(5788200), "Input must be an array")
	}
	s := newState(n)
	for it := input.Doc().Iter(); it.Next(); {
		if err := s.add(env, it.Value); err != nil {
			return bson.Value{}, err
		}
	}
	return s.Result()
}

// kept is a value that a group keeps, with bytes of its own. seq is the order in
// which values came.
type kept struct {
	value bson.Value
	seq   int
}

// keptOverhead is what a kept value costs besides its bytes.
const keptOverhead = 48

// overBudget is the error of holding more than a group may.
func overBudget(name string, bytes int) error {
	if bytes <= maxGroupBytes {
		return nil
	}
	return mongoerr.New(mongoerr.ExceededMemoryLimit,
		"%s used too much memory and cannot spill to disk. Memory limit: %d bytes", name, maxGroupBytes)
}

// firstNState keeps the first n values; missing ones are null.
type firstNState struct {
	list
	n int
}

func (s *firstNState) add(env *Env, v bson.Value) error {
	if s.list.n == s.n {
		return nil
	}
	return s.append(env, "$firstN", orNull(v))
}

func (s *firstNState) Result() (bson.Value, error) { return s.value(), nil }
func (s *firstNState) Size() int                   { return 40 + cap(s.buf) }

// lastNState keeps the last n values in a ring; missing ones are null.
type lastNState struct {
	n, next, bytes int
	ring           []bson.Value
}

func (s *lastNState) add(_ *Env, v bson.Value) error {
	v = orNull(v).Clone()
	s.bytes += len(v.Data) + keptOverhead
	if len(s.ring) < s.n {
		s.ring = append(s.ring, v)
	} else {
		s.bytes -= len(s.ring[s.next].Data) + keptOverhead
		s.ring[s.next] = v
		s.next = (s.next + 1) % s.n
	}
	return overBudget("$lastN", s.bytes)
}

func (s *lastNState) Result() (bson.Value, error) {
	return new(Env).array(slices.Concat(s.ring[s.next:], s.ring[:s.next]))
}

func (s *lastNState) Size() int { return 64 + s.bytes }

// extremeN keeps the n least (sense -1) or greatest (sense 1) values, of equal
// ones the first; null, undefined and missing do not count. It is a heap with
// the value that is dropped next on top.
type extremeN struct {
	n, sense, seq, bytes int
	env                  *Env
	values               []kept
}

// order is negative if a comes before b in the result.
func (s *extremeN) order(a, b kept) int {
	if c := s.env.compare(b.value, a.value) * s.sense; c != 0 {
		return c
	}
	return a.seq - b.seq
}

func (s *extremeN) add(env *Env, v bson.Value) error {
	if v.IsNullish() {
		return nil
	}
	s.env = env
	s.seq++
	k := kept{v, s.seq}
	if len(s.values) == s.n {
		if s.order(k, s.values[0]) > 0 {
			return nil
		}
		s.bytes -= len(s.values[0].value.Data) + keptOverhead
		k.value = v.Clone()
		s.values[0] = k
		heap.Fix(s, 0)
	} else {
		k.value = v.Clone()
		heap.Push(s, k)
	}
	s.bytes += len(v.Data) + keptOverhead
	return overBudget("$minN or $maxN", s.bytes)
}

// Len, Less, Swap, Push and Pop are heap.Interface.
func (s *extremeN) Len() int           { return len(s.values) }
func (s *extremeN) Less(i, j int) bool { return s.order(s.values[i], s.values[j]) > 0 }
func (s *extremeN) Swap(i, j int)      { s.values[i], s.values[j] = s.values[j], s.values[i] }
func (s *extremeN) Push(k any)         { s.values = append(s.values, k.(kept)) }

func (s *extremeN) Pop() any {
	k := s.values[len(s.values)-1]
	s.values = s.values[:len(s.values)-1]
	return k
}

func (s *extremeN) Result() (bson.Value, error) {
	sorted := slices.SortedFunc(slices.Values(s.values), s.order)
	vs := make([]bson.Value, len(sorted))
	for i, k := range sorted {
		vs[i] = k.value
	}
	return new(Env).array(vs)
}

func (s *extremeN) Size() int { return 80 + s.bytes }

// Load adds the values.
func (s *firstNState) Load(env *Env, b []byte) error {
	for it := savedList(b).value().Doc().Iter(); it.Next(); {
		if err := s.add(env, it.Value); err != nil {
			return err
		}
	}
	return nil
}

// Save appends the values, the oldest first.
func (s *lastNState) Save(b []byte) ([]byte, error) {
	for _, v := range slices.Concat(s.ring[s.next:], s.ring[:s.next]) {
		b = saveValue(b, v)
	}
	return b, nil
}

// Load adds them.
func (s *lastNState) Load(env *Env, b []byte) error {
	for in := saved(b); len(in) > 0; {
		if err := s.add(env, in.value()); err != nil {
			return err
		}
	}
	return nil
}

// Save appends the values in the order in which they came.
func (s *extremeN) Save(b []byte) ([]byte, error) {
	arrived := slices.SortedFunc(slices.Values(s.values), func(x, y kept) int { return x.seq - y.seq })
	for _, k := range arrived {
		b = saveValue(b, k.value)
	}
	return b, nil
}

// Load adds them.
func (s *extremeN) Load(env *Env, b []byte) error {
	for in := saved(b); len(in) > 0; {
		if err := s.add(env, in.value()); err != nil {
			return err
		}
	}
	return nil
}
