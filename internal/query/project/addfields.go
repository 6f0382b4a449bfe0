package project

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// parseAddFields parses $addFields and its other name $set. An object in the
// specification is merged into the document field by field; an empty one
// replaces what is there.
func parseAddFields(stage string, arg bson.Value, opts *Options) (*Projection, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(40272), "%s specification stage must be an object, got %s", stage, arg.Type)
	}
	a := &adder{spec: arg.Doc(), paths: &node{}, root: &node{}}
	for it := a.spec.Iter(); it.Next(); {
		if err := a.element(it.Key, it.Value); err != nil {
			return nil, inStage(stage, err)
		}
	}
	for _, l := range a.leaves {
		e, err := expr.Parse(l.value, opts.Expr)
		if err != nil {
			return nil, inStage(stage, err)
		}
		if err := a.root.add(l.path, field{do: compute, expr: e}); err != nil {
			return nil, err
		}
	}
	a.root.finish()
	return &Projection{kind: AddFields, stage: stage, spec: a.spec, root: a.root}, nil
}

// adder holds the state of parsing one $addFields. The paths of the whole
// specification are checked before any expression is parsed.
type adder struct {
	spec   bson.Doc
	paths  *node // every path so far
	root   *node
	leaves []leaf
}

type leaf struct {
	path  string
	value bson.Value
}

func (a *adder) element(path string, v bson.Value) error {
	if err := validatePath(path); err != nil {
		return err
	}
	if v.Type != bson.TypeDocument || v.Doc().IsEmpty() {
		return a.leaf(path, v)
	}
	d := v.Doc()
	for it := d.Iter(); it.Next(); {
		if strings.HasPrefix(it.Key, "$") {
			if d.Len() != 1 {
				return mongoerr.New(mongoerr.Code(40181), "An object representing an expression must have exactly one field: %s", d)
			}
			return a.leaf(path, v)
		}
		if strings.Contains(it.Key, ".") {
			return mongoerr.New(mongoerr.Code(40183), "cannot use dotted field name '%s' in a sub object: %s", it.Key, d)
		}
		if err := a.element(path+"."+it.Key, it.Value); err != nil {
			return err
		}
	}
	return nil
}

func (a *adder) leaf(path string, v bson.Value) error {
	if other := a.paths.conflict(path); other != "" {
		return mongoerr.New(mongoerr.Code(40176),
			"specification contains two conflicting paths. Cannot specify both '%s' and '%s': %s", path, other, a.spec)
	}
	a.leaves = append(a.leaves, leaf{path, v})
	return a.paths.add(path, field{})
}
