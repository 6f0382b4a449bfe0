package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// Shape is one of $project, $addFields, $set, $unset, $replaceRoot and
// $replaceWith.
type Shape struct {
	name string
	Spec *project.Projection
}

func parseShape(arg bson.Value, p *parsing) (Stage, error) {
	spec, err := project.ParseStage(p.name, arg, &project.Options{Expr: p.Expr, Match: p.Match})
	if err != nil {
		return nil, err
	}
	return &Shape{p.name, spec}, nil
}

// Name is the stage's name.
func (s *Shape) Name() string { return s.name }

// Serialize is the specification.
func (s *Shape) Serialize() bson.Value { return bson.Document(s.Spec.Serialize()) }

// Open shapes each document.
func (s *Shape) Open(in Iterator, r *Run) (Iterator, error) {
	var buf []byte
	return &mapped{in, r, func(d bson.Doc) (bson.Doc, error) {
		var err error
		buf, err = s.Spec.Append(buf[:0], r.Env, d)
		return buf, err
	}}, nil
}
