package update

import "github.com/mayflydb/mayfly/internal/bson"

// unset is $unset; its argument means nothing.
type unset struct{}

func parseUnset(string, bson.Value, *Options) (operator, error) { return unset{}, nil }

func (unset) apply(_ *Context, dst []byte, _ string, _ bson.Value) ([]byte, bson.Type, error) {
	return dst, bson.Missing, nil
}
