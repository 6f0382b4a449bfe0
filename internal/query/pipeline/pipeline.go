package pipeline

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// maxStages bounds a pipeline (internalPipelineLengthLimit).
const maxStages = 1000

// Options is what a pipeline is parsed in.
type Options struct {
	Expr  *expr.Options
	Match *match.Options
	// Collator is that of the whole pipeline.
	Collator bson.Collator
	// Collectionless says that the pipeline runs on a database ({aggregate: 1}).
	Collectionless bool
	// DB is the database.
	DB string
}

// Pipeline is a parsed pipeline.
type Pipeline struct {
	Stages []Stage
}

// parsing is the place of a stage under parse.
type parsing struct {
	*Options
	name  string // of the stage
	index int    // in the pipeline
}

// Parse parses an array of stages. Errors: 40323 and 40324 for what is no
// stage, 40602 for one at a wrong place, 7749501 for too many, and those of
// the stages.
func Parse(list []bson.Value, opts *Options) (*Pipeline, error) {
	if len(list) > maxStages {
		return nil, mongoerr.New(7749501, "Pipeline length must be no longer than %d stages.", maxStages)
	}
	p := &Pipeline{}
	for i, v := range list {
		if v.Type != bson.TypeDocument {
			return nil, mongoerr.New(mongoerr.TypeMismatch, "Each element of the 'pipeline' array must be an object")
		}
		s, err := parseStage(v.Doc(), i, opts)
		if err != nil {
			return nil, err
		}
		p.Stages = append(p.Stages, s)
	}
	markGroups(p.Stages)
	return p, p.checkSource(opts)
}

func parseStage(d bson.Doc, i int, opts *Options) (Stage, error) {
	name, arg := d.First()
	if d.Len() != 1 {
		return nil, mongoerr.New(40323, "A pipeline stage specification object must contain exactly one field.")
	}
	parse, ok := stages[name]
	if !ok {
		return nil, mongoerr.New(40324, "Unrecognized pipeline stage name: '%s'", name)
	}
	return parse(arg, &parsing{Options: opts, name: name, index: i})
}

// checkSource demands that a source stage comes first, and that a pipeline
// without a collection has one.
func (p *Pipeline) checkSource(opts *Options) error {
	for i, s := range p.Stages {
		if _, ok := s.(Source); ok && i > 0 {
			return mongoerr.New(40602, "%s is only valid as the first stage in a pipeline.", s.Name())
		}
	}
	if !opts.Collectionless {
		return nil
	}
	if len(p.Stages) > 0 {
		if _, ok := p.Stages[0].(Source); ok {
			return nil
		}
	}
	first := "an empty pipeline"
	if len(p.Stages) > 0 {
		first = p.Stages[0].Name()
	}
	return mongoerr.New(mongoerr.InvalidNamespace, "{aggregate: 1} is not valid for '%s'; a collection is required.", first)
}

// HasSource says whether the pipeline reads no collection.
func (p *Pipeline) HasSource() bool {
	if len(p.Stages) == 0 {
		return false
	}
	_, ok := p.Stages[0].(Source)
	return ok
}

// Open runs the stages over in.
func (p *Pipeline) Open(in Iterator, r *Run) (Iterator, error) {
	for _, s := range p.Stages {
		next, err := s.Open(in, r)
		if err != nil {
			if in != nil {
				in.Close()
			}
			return nil, err
		}
		in = next
	}
	return in, nil
}

// Serialize is the pipeline as explain prints it.
func (p *Pipeline) Serialize() []bson.Doc {
	var out []bson.Doc
	for _, s := range p.Stages {
		out = append(out, new(bson.Builder).Value(s.Name(), s.Serialize()).Finish())
	}
	return out
}

// mapped runs a function over each document; a nil result leaves it out.
type mapped struct {
	in Iterator
	f  func(bson.Doc) (bson.Doc, error)
}

func (m *mapped) Close() { m.in.Close() }

func (m *mapped) Next(ctx context.Context) (bson.Doc, error) {
	for {
		d, err := m.in.Next(ctx)
		if err != nil || d == nil {
			return nil, err
		}
		if out, err := m.f(d); err != nil || out != nil {
			return out, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// List is an Iterator over documents in memory.
type List struct{ Docs []bson.Doc }

// Next returns the next document.
func (l *List) Next(context.Context) (bson.Doc, error) {
	if len(l.Docs) == 0 {
		return nil, nil
	}
	d := l.Docs[0]
	l.Docs = l.Docs[1:]
	return d, nil
}

// Close lets go of the documents.
func (l *List) Close() { l.Docs = nil }
