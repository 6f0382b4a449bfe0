package expr

import "github.com/mayflydb/mayfly/internal/bson"

// indexedFrom is the number of fields from which fieldSet keeps a map.
const indexedFrom = 16

// fieldSet is an object under construction in which a later field of the same
// name replaces the value of the earlier one and keeps its place.
type fieldSet struct {
	names  []string
	values []bson.Value
	index  map[string]int
}

func (s *fieldSet) set(name string, v bson.Value) {
	if i := s.find(name); i >= 0 {
		s.values[i] = v
		return
	}
	if s.index != nil {
		s.index[name] = len(s.names)
	}
	s.names = append(s.names, name)
	s.values = append(s.values, v)
	if s.index == nil && len(s.names) == indexedFrom {
		s.index = make(map[string]int, 2*indexedFrom)
		for i, n := range s.names {
			s.index[n] = i
		}
	}
}

func (s *fieldSet) find(name string) int {
	if s.index != nil {
		if i, ok := s.index[name]; ok {
			return i
		}
		return -1
	}
	for i, n := range s.names {
		if n == name {
			return i
		}
	}
	return -1
}

func (s *fieldSet) setAll(d bson.Doc) {
	for it := d.Iter(); it.Next(); {
		s.set(it.Key, it.Value)
	}
}

// value builds the object.
func (s *fieldSet) value(env *Env) (bson.Value, error) { return env.object(s.names, s.values) }
