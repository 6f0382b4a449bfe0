package expr

import "github.com/mayflydb/mayfly/internal/bson"

func init() {
	registerGatherer("$first", firstState{})
	registerGatherer("$last", lastState{})
}

// firstState is the value of the first document.
type firstState struct {
	seen  bool
	value bson.Value
}

func (s *firstState) add(_ *Env, v bson.Value) error {
	if !s.seen {
		s.seen, s.value = true, v.Clone()
	}
	return nil
}

func (s *firstState) Result() (bson.Value, error) { return orNull(s.value), nil }
func (s *firstState) Size() int                   { return 40 + len(s.value.Data) }

// lastState is the value of the last document so far.
type lastState struct{ value bson.Value }

func (s *lastState) add(_ *Env, v bson.Value) error {
	// Result clones, so the bytes may be used again.
	s.value = bson.Value{Type: v.Type, Data: append(s.value.Data[:0], v.Data...)}
	return nil
}

func (s *lastState) Result() (bson.Value, error) { return orNull(s.value).Clone(), nil }
func (s *lastState) Size() int                   { return 32 + cap(s.value.Data) }

// Save appends the value; a missing one is a value too.
func (s *firstState) Save(b []byte) ([]byte, error) {
	if !s.seen {
		return b, nil
	}
	return saveValue(b, s.value), nil
}

// Load adds it.
func (s *firstState) Load(env *Env, b []byte) error {
	if in := saved(b); len(in) > 0 {
		return s.add(env, in.value())
	}
	return nil
}

// Save appends the value.
func (s *lastState) Save(b []byte) ([]byte, error) { return saveValue(b, s.value), nil }

// Load adds it.
func (s *lastState) Load(env *Env, b []byte) error {
	in := saved(b)
	return s.add(env, in.value())
}
