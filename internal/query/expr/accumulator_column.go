package expr

import (
	"encoding/binary"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
)

// Column holds the values of an expression for a batch of documents.
type Column interface {
	Len() int
	// At returns the value for document i, Missing if it has none.
	At(i int) bson.Value
	// Fixed returns all values as they are encoded in documents, one after the other,
	// if they have one type of a fixed size; nil otherwise.
	Fixed() (bson.Type, []byte)
}

// ColumnAccumulator is an Accumulator that can add a batch of documents at once.
type ColumnAccumulator interface {
	Accumulator
	// AddColumn adds the values of the expression for a batch of documents.
	AddColumn(env *Env, c Column) error
}

// Constants is a Column with the same value for all documents.
type Constants struct {
	Value bson.Value
	N     int
}

// Len is the number of documents.
func (c *Constants) Len() int { return c.N }

// At returns the value.
func (c *Constants) At(int) bson.Value { return c.Value }

// Fixed returns nil.
func (c *Constants) Fixed() (bson.Type, []byte) { return bson.Missing, nil }

// AddColumn adds up the values.
func (s *sumState) AddColumn(_ *Env, c Column) error {
	switch k, constant := c.(*Constants); {
	case constant && k.N > 0 && k.Value.Type == bson.TypeInt32:
		// A product of 32 and fewer than 21 bits is exact as a double.
		n := min(k.N, 1<<20)
		s.count += int64(n)
		s.widest = wider(s.widest, bson.TypeInt32)
		s.addDouble(float64(k.Value.Int32()) * float64(n))
		if n < k.N {
			return s.AddColumn(nil, &Constants{k.Value, k.N - n})
		}
		return nil
	case constant:
		for range k.N {
			s.add(k.Value)
		}
		return nil
	}
	t, data := c.Fixed()
	switch t {
	case bson.TypeDouble:
		s.addDoubles(data)
	case bson.TypeInt32:
		s.count += int64(len(data) / 4)
		s.widest = wider(s.widest, t)
		for ; len(data) > 0; data = data[4:] {
			s.addDouble(float64(int32(binary.LittleEndian.Uint32(data))))
		}
	default:
		for i := range c.Len() {
			s.add(c.At(i))
		}
	}
	return nil
}

// addDoubles is add for adjacent doubles.
func (s *summation) addDoubles(data []byte) {
	if len(data) == 0 {
		return
	}
	s.count += int64(len(data) / 8)
	s.widest = wider(s.widest, bson.TypeDouble)
	special, total := s.special, s.total
	for ; len(data) >= 8; data = data[8:] {
		f := math.Float64frombits(binary.LittleEndian.Uint64(data))
		special += f
		sum := twoSum(total.hi, f)
		total = quickSum(sum.hi, sum.lo+total.lo)
	}
	s.special, s.total = special, total
}

// AddColumn adds the values one by one, unless the accumulator needs only a few of
// them.
func (g *compact[S, P]) AddColumn(env *Env, c Column) error {
	state := P(&g.state)
	switch s := any(state).(type) {
	case *extreme:
		if t, data := c.Fixed(); len(data) > 0 {
			if i := s.ofFixed(t, data); i >= 0 {
				return state.add(env, c.At(i))
			}
		}
	case *firstState:
		if c.Len() == 0 || s.seen {
			return nil
		}
		return state.add(env, c.At(0))
	case *lastState:
		if c.Len() == 0 {
			return nil
		}
		return state.add(env, c.At(c.Len()-1))
	}
	for i := range c.Len() {
		if err := state.add(env, c.At(i)); err != nil {
			return err
		}
	}
	return nil
}

// ofFixed finds the least or greatest of numbers or dates that are
// adjacent, the first of equal ones; -1 if it cannot tell. REQUIRES: there
// is one.
func (x *extreme) ofFixed(t bson.Type, data []byte) int {
	if !invariant.Check(len(data) > 0, "expr: ofFixed has a value") {
		return -1
	}
	best := 0
	switch t {
	case bson.TypeDouble:
		double := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:])) }
		b := double(0)
		for i := 1; i < len(data)/8; i++ {
			f := double(i)
			if f > b && x.sense > 0 || f < b && x.sense < 0 {
				best, b = i, f
			} else if f != f || b != b {
				return -1 // NaN has an order of its own
			}
		}
	case bson.TypeInt64, bson.TypeDate:
		b := int64(binary.LittleEndian.Uint64(data))
		for i := 1; i < len(data)/8; i++ {
			if v := int64(binary.LittleEndian.Uint64(data[8*i:])); v > b && x.sense > 0 || v < b && x.sense < 0 {
				best, b = i, v
			}
		}
	case bson.TypeInt32:
		b := int32(binary.LittleEndian.Uint32(data))
		for i := 1; i < len(data)/4; i++ {
			if v := int32(binary.LittleEndian.Uint32(data[4*i:])); v > b && x.sense > 0 || v < b && x.sense < 0 {
				best, b = i, v
			}
		}
	default:
		return -1
	}
	return best
}

// HasFirst reports whether an accumulator is a $first that has its value, so that no
// column can change it.
func HasFirst(a Accumulator) bool {
	c, ok := a.(*compact[firstState, *firstState])
	return ok && c.state.seen
}

// Column returns what $sum, $avg, $count, $min, $max, $first and $last are computed
// from: a field of the document by its path, or a constant where path is "". ok is
// false for any other accumulator and any other expression.
func (s *AccumulatorSpec) Column() (path string, constant bson.Value, ok bool) {
	switch s.Name {
	case "$sum", "$avg", "$count", "$min", "$max", "$first", "$last":
	default:
		return "", bson.Value{}, false
	}
	if path, ok = AsFieldPath(s.exprs[0]); ok {
		return path, bson.Value{}, path != ""
	}
	constant, ok = Constant(s.exprs[0])
	return "", constant, ok
}
