package expr

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerGatherer("$push", pushState{})
	registerGatherer("$concatArrays", concatState{})
	registerGatherer("$addToSet", addToSetState{})
	registerGatherer("$setUnion", unionState{})
}

// maxGroupBytes bounds what one accumulator gathers for one group.
const maxGroupBytes = 100 << 20

// listElement is the most that an element takes in addition to its value, in bytes.
const listElement = 16

// list is an array under construction that owns its bytes.
type list struct {
	buf []byte
	n   int
}

func (l *list) append(env *Env, name string, v bson.Value) error {
	if l.buf == nil {
		// Most lists stay short, and groups with one are many.
		l.buf = make([]byte, 4, 4+2*(3+len(v.Data)))
	}
	if len(l.buf)+len(v.Data) > maxGroupBytes {
		return mongoerr.New(mongoerr.ExceededMemoryLimit,
			"%s used too much memory and cannot spill to disk. Memory limit: %d bytes", name, maxGroupBytes)
	}
	if n := cap(l.buf); n > largeValue && n-len(l.buf) < len(v.Data)+listElement {
		// It is there twice while it grows, and while its value is made.
		if err := env.holdLarge(2 * n); err != nil {
			return err
		}
	}
	l.buf = append(l.buf, byte(v.Type))
	l.buf = strconv.AppendInt(l.buf, int64(l.n), 10)
	l.buf = append(append(l.buf, 0), v.Data...)
	l.n++
	return nil
}

func (l *list) value() bson.Value {
	if l.n == 0 {
		return bson.ArrayOf(bson.Empty)
	}
	d := append(append(make([]byte, 0, len(l.buf)+1), l.buf...), 0)
	binary.LittleEndian.PutUint32(d, uint32(len(d)))
	return bson.ArrayOf(d)
}

// pushState is the array of all values but missing ones.
type pushState struct{ list }

func (s *pushState) add(env *Env, v bson.Value) error {
	if v.IsMissing() {
		return nil
	}
	return s.append(env, "$push", v)
}

func (s *pushState) Result() (bson.Value, error) { return s.value(), nil }
func (s *pushState) Size() int                   { return 32 + cap(s.buf) }

// concatState is the concatenation of all arrays.
type concatState struct{ list }

func (s *concatState) add(env *Env, v bson.Value) error {
	if err := needArray("$concatArrays", v); err != nil || v.IsMissing() {
		return err
	}
	for it := v.Doc().Iter(); it.Next(); {
		if err := s.append(env, "$concatArrays", it.Value); err != nil {
			return err
		}
	}
	return nil
}

func (s *concatState) Result() (bson.Value, error) { return s.value(), nil }
func (s *concatState) Size() int                   { return 32 + cap(s.buf) }

// needArray refuses a value that is neither an array nor missing.
func needArray(name string, v bson.Value) error {
	if v.Type == bson.TypeArray || v.IsMissing() {
		return nil
	}
	return mongoerr.New(mongoerr.TypeMismatch, "%s requires array inputs, but input %s is of type %s", name, text(v), v.Type)
}

// distinct is the array of the distinct ones among values, each the first of
// those that compare equal, in the order in which they came.
type distinct struct {
	list
	seen  map[string]struct{} // by keystring
	bytes int                 // held by seen
	key   []byte
}

// distinctEntry is about what an entry of a map costs besides its key.
const distinctEntry = 32

func (s *distinct) insert(env *Env, name string, v bson.Value) error {
	s.key = keystring.Append(s.key[:0], v, false, env.Collator)
	if _, ok := s.seen[string(s.key)]; ok {
		return nil
	}
	if s.seen == nil {
		s.seen = map[string]struct{}{}
	}
	s.seen[string(s.key)] = struct{}{}
	s.bytes += len(s.key) + distinctEntry
	return s.append(env, name, v)
}

func (s *distinct) Result() (bson.Value, error) { return s.value(), nil }
func (s *distinct) Size() int                   { return 80 + cap(s.buf) + s.bytes }

// addToSetState is $addToSet.
type addToSetState struct{ distinct }

func (s *addToSetState) add(env *Env, v bson.Value) error {
	if v.IsMissing() {
		return nil
	}
	return s.insert(env, "$addToSet", v)
}

// unionState is $setUnion: the distinct elements of all arrays.
type unionState struct{ distinct }

func (s *unionState) add(env *Env, v bson.Value) error {
	if err := needArray("$setUnion", v); err != nil || v.IsMissing() {
		return err
	}
	for it := v.Doc().Iter(); it.Next(); {
		if err := s.insert(env, "$setUnion", it.Value); err != nil {
			return err
		}
	}
	return nil
}

// Save appends the array.
func (l *list) Save(b []byte) ([]byte, error) {
	return append(binary.AppendUvarint(b, uint64(l.n)), l.buf...), nil
}

// savedList is an array that Save has appended.
func savedList(b []byte) *list {
	in := saved(b)
	n := in.int()
	return &list{n: n, buf: in}
}

// load adds a saved array.
func (l *list) load(env *Env, name string, b []byte) error {
	from := savedList(b)
	if l.n == 0 {
		l.n, l.buf = from.n, slices.Clone(from.buf)
		return nil
	}
	for it := from.value().Doc().Iter(); it.Next(); {
		if err := l.append(env, name, it.Value); err != nil {
			return err
		}
	}
	return nil
}

// Load adds the array.
func (s *pushState) Load(env *Env, b []byte) error { return s.load(env, "$push", b) }

// Load adds the array.
func (s *concatState) Load(env *Env, b []byte) error { return s.load(env, "$concatArrays", b) }

// load adds the elements of a saved array.
func (s *distinct) load(env *Env, name string, b []byte) error {
	for it := savedList(b).value().Doc().Iter(); it.Next(); {
		if err := s.insert(env, name, it.Value); err != nil {
			return err
		}
	}
	return nil
}

// Load adds the elements.
func (s *addToSetState) Load(env *Env, b []byte) error { return s.load(env, "$addToSet", b) }

// Load adds the elements.
func (s *unionState) Load(env *Env, b []byte) error { return s.load(env, "$setUnion", b) }
