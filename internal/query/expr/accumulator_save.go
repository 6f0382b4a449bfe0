package expr

import (
	"encoding/binary"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Saver is an Accumulator whose state can be spilled to disk, and sent from a shard to a
// router, as those of all accumulators of $group can.
type Saver interface {
	// Save appends the state to b.
	Save(b []byte) ([]byte, error)
	// Load adds the documents of a state that Save has appended; those of the accumulator
	// come first. It copies what it needs.
	Load(env *Env, b []byte) error
}

// Save appends the state.
func (g *gatherer) Save(b []byte) ([]byte, error) { return g.state.(Saver).Save(b) }

// Load adds what Save appended.
func (g *gatherer) Load(env *Env, b []byte) error { return g.state.(Saver).Load(env, b) }

func saveValue(b []byte, v bson.Value) []byte {
	b = binary.AppendUvarint(append(b, byte(v.Type)), uint64(len(v.Data)))
	return append(b, v.Data...)
}

func saveFloat(b []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}

// saved reads what the functions above have written.
type saved []byte

func (s *saved) value() bson.Value {
	t := bson.Type((*s)[0])
	*s = (*s)[1:]
	n := s.int()
	v := bson.Value{Type: t, Data: (*s)[:n:n]}
	*s = (*s)[n:]
	return v
}

func (s *saved) int() int {
	u, n := binary.Uvarint(*s)
	*s = (*s)[n:]
	return int(u)
}

func (s *saved) bits() uint64 {
	u := binary.LittleEndian.Uint64(*s)
	*s = (*s)[8:]
	return u
}

func (s *saved) float() float64 { return math.Float64frombits(s.bits()) }
