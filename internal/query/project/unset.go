package project

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// parseUnset parses $unset: one path or an array of paths to leave out.
func parseUnset(arg bson.Value, opts *Options) (*Projection, error) {
	var b bson.Builder
	p := &parser{opts: opts, root: &node{}, decided: true, kind: Exclusion}
	switch arg.Type {
	case bson.TypeString:
		arg = bson.Array(arg)
	case bson.TypeArray:
		if arg.Doc().IsEmpty() {
			return nil, mongoerr.New(mongoerr.Code(31119), "$unset specification must be a string or an array with at least one field")
		}
	default:
		return nil, mongoerr.New(mongoerr.Code(31002), "$unset specification must be a string or an array")
	}
	var paths []string
	for v := range arg.Doc().Values() {
		if v.Type != bson.TypeString {
			return nil, mongoerr.New(mongoerr.Code(31120), "$unset specification must be a string or an array containing only string values")
		}
		paths = append(paths, v.Str())
	}
	for _, path := range paths {
		if strings.IndexByte(path, 0) >= 0 {
			return nil, mongoerr.New(mongoerr.Code(9527900), "$unset specification must not contain embedded null bytes")
		}
	}
	for _, path := range paths {
		if err := p.exclude("", path); err != nil {
			return nil, inStage("$unset", err)
		}
		b.Bool(path, false)
	}
	return &Projection{kind: Exclusion, stage: "$project", spec: b.Finish(), root: p.root}, nil
}
