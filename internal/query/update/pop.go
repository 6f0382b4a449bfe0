package update

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// pop is $pop: it removes the last element of an array, or the first.
type pop struct {
	path  string
	first bool
}

func parsePop(path string, arg bson.Value, _ *Options) (operator, error) {
	text := elementText(path, arg)
	if !arg.IsNumber() {
		return nil, mongoerr.New(mongoerr.FailedToParse, "Expected a number in: %s", text)
	}
	n, ok := bson.ExactInt64(arg)
	if !ok {
		return nil, mongoerr.New(mongoerr.FailedToParse, "Expected an integer: %s", text)
	}
	if n != 1 && n != -1 {
		return nil, mongoerr.New(mongoerr.FailedToParse, "$pop expects 1 or -1, found: %s", arg)
	}
	return &pop{path, n == -1}, nil
}

func (p *pop) apply(_ *Context, dst []byte, _ string, old bson.Value) ([]byte, bson.Type, error) {
	if old.Type != bson.TypeArray {
		return dst, 0, mongoerr.New(mongoerr.TypeMismatch, "Path '%s' contains an element of non-array type '%s'", p.path, old.Type)
	}
	if old.Doc().IsEmpty() {
		return append(dst, old.Data...), old.Type, nil
	}
	size, at := 0, 0
	if !p.first {
		size = old.Doc().Len()
	}
	w := openArray(dst)
	for v := range old.Doc().Values() {
		if at++; p.first && at > 1 || !p.first && at < size {
			w.add(v)
		}
	}
	return w.finish()
}
