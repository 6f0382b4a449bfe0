package update

import "github.com/mayflydb/mayfly/internal/bson"

// set is $set and $setOnInsert.
type set struct{ value bson.Value }

func parseSet(_ string, arg bson.Value, _ *Options) (operator, error) { return &set{arg}, nil }

func (s *set) apply(_ *Context, dst []byte, _ string, _ bson.Value) ([]byte, bson.Type, error) {
	return append(dst, s.value.Data...), s.value.Type, nil
}
