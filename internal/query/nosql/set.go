package nosql

import "github.com/mayflydb/mayfly/internal/bson"

// set is values, each once: few are compared, many are looked up.
type set struct {
	few  []bson.Value
	many map[string]struct{} // all, by identity; nil while they are few
	key  []byte
}

// maxCompare is how many values of a set are compared one by one.
const maxCompare = 16

func setOf(vs []bson.Value) *set {
	s := new(set)
	for _, v := range vs {
		s.add(v)
	}
	return s
}

func (s *set) has(v bson.Value) bool {
	if s.many != nil {
		s.key = identity(s.key[:0], v)
		_, ok := s.many[string(s.key)]
		return ok
	}
	for _, w := range s.few {
		if equal(v, w) {
			return true
		}
	}
	return false
}

// add adds a value, and reports whether it is new.
func (s *set) add(v bson.Value) bool {
	if s.has(v) {
		return false
	}
	if s.many == nil && len(s.few) < maxCompare {
		s.few = append(s.few, v)
		return true
	}
	if s.many == nil {
		s.many = map[string]struct{}{}
		for _, w := range s.few {
			s.many[string(identity(nil, w))] = struct{}{}
		}
	}
	s.many[string(identity(nil, v))] = struct{}{}
	return true
}

// filter returns those of some values that the set has, or has not, each once.
func (s *set) filter(vs []bson.Value, had bool) (out []bson.Value) {
	seen := new(set)
	for _, v := range vs {
		if s.has(v) == had && seen.add(v) {
			out = append(out, v)
		}
	}
	return out
}

func (s *set) hasAll(vs []bson.Value) bool {
	for _, v := range vs {
		if !s.has(v) {
			return false
		}
	}
	return true
}
