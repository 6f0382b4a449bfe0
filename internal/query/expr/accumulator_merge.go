package expr

import "github.com/mayflydb/mayfly/internal/bson"

func init() { registerGatherer("$mergeObjects", mergeState{}) }

// mergeState is the objects of a group merged.
type mergeState struct {
	fields fieldSet
	bytes  int
}

func (s *mergeState) add(env *Env, v bson.Value) error {
	if v.Type == bson.TypeDocument {
		v = v.Clone()
		s.bytes += len(v.Data)
	}
	return s.fields.merge(v, env.code(40400, 5911200))
}

func (s *mergeState) Result() (bson.Value, error) { return s.fields.value(&Env{}) }
func (s *mergeState) Size() int                   { return 64 + s.bytes }

// Save appends the fields.
func (s *mergeState) Save(b []byte) ([]byte, error) {
	v, err := s.Result()
	return saveValue(b, v), err
}

// Load adds them.
func (s *mergeState) Load(env *Env, b []byte) error {
	in := saved(b)
	return s.add(env, in.value())
}
