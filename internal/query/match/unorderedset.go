package match

import (
	"slices"
	"strings"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
)

// unorderedSet is a set of values as JSON schema compares them: the order of
// fields says nothing. Its keys are those of keystring.
type unorderedSet map[string]struct{}

// add reports whether v is new.
func (s unorderedSet) add(v bson.Value) bool {
	key := string(appendUnordered(nil, v))
	if _, have := s[key]; have {
		return false
	}
	s[key] = struct{}{}
	return true
}

// keyRoom holds room for the keys that has makes, so that no document takes any.
var keyRoom = sync.Pool{New: func() any { return new([]byte) }}

func (s unorderedSet) has(v bson.Value) bool {
	room := keyRoom.Get().(*[]byte)
	*room = appendUnordered((*room)[:0], v)
	_, have := s[string(*room)]
	keyRoom.Put(room)
	return have
}

// appendUnordered appends a key that two values share if they are equal but
// for the order of fields.
func appendUnordered(dst []byte, v bson.Value) []byte {
	return keystring.Append(dst, sortedFields(v), false, nil)
}

// sortedFields is v with the fields of every document in the order of their
// names.
func sortedFields(v bson.Value) bson.Value {
	var b bson.Builder
	switch v.Type {
	case bson.TypeArray:
		b.Reset(nil)
		for it := v.Doc().Iter(); it.Next(); {
			b.Value(it.Key, sortedFields(it.Value))
		}
		return bson.ArrayOf(b.Finish())
	case bson.TypeDocument:
		type field struct {
			name  string
			value bson.Value
		}
		var fields []field
		for name, value := range v.Doc().All() {
			fields = append(fields, field{name, value})
		}
		slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
		b.Reset(nil)
		for _, f := range fields {
			b.Value(f.name, sortedFields(f.value))
		}
		return bson.Document(b.Finish())
	}
	return v
}
