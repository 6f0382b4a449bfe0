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
	// NS is the collection or view that the pipeline was written for.
	NS Namespace
	// Above is how many stages in front are not the user's but those of views.
	Above int
	// ChangeStreams says that there is a log, so that the pipeline may begin with
	// $changeStream.
	ChangeStreams bool
	// Joins says that a router runs the pipeline over what shards send: it may begin by
	// joining the states of their groups.
	Joins bool
	// Meta is the metadata with which the documents come that the pipeline runs over.
	Meta []string
	// Namespaces knows the other collections; nil takes all names as they are.
	Namespaces Namespaces

	inside  string // the stage that contains the pipeline, or ""
	inFacet bool   // there is a $facet around it
	depth   int    // of sub-pipelines
	above   int
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
// stage, 7749501 for too many, those of the stages, those of checkPlaces, and
// last what constant expressions fail with.
func Parse(list []bson.Value, opts *Options) (*Pipeline, error) {
	p, faults, err := parse(list, opts)
	if err != nil {
		return nil, err
	}
	return p, faults.Err("pipeline")
}

// parse parses a pipeline, and returns the error of constant expressions, which is
// found when the pipeline is optimized.
func parse(list []bson.Value, opts *Options) (*Pipeline, *expr.Faults, error) {
	o := opts.with(nil)
	faults := &expr.Faults{}
	o.Expr.Faults = faults
	p, err := parseStages(list, o)
	return p, faults, err
}

func parseStages(list []bson.Value, o *Options) (*Pipeline, error) {
	if len(list) > maxStages {
		return nil, mongoerr.New(7749501, "Pipeline length must be no longer than %d stages.", maxStages)
	}
	o.above, o.Above = o.Above, 0
	p := &Pipeline{}
	for i, v := range list {
		if v.Type != bson.TypeDocument {
			return nil, mongoerr.New(mongoerr.TypeMismatch, "Each element of the 'pipeline' array must be an object")
		}
		s, err := parseStage(v.Doc(), i, o)
		if err != nil {
			return nil, err
		}
		p.Stages = append(p.Stages, s)
	}
	markGroups(p.Stages)
	if err := p.checkSource(o); err != nil {
		return nil, err
	}
	if err := p.checkPlaces(o); err != nil {
		return nil, err
	}
	if err := p.placeGeoNear(); err != nil {
		return nil, err
	}
	if err := p.checkMeta(o.Meta); err != nil {
		return nil, err
	}
	p.flatten()
	return p, p.checkChangeStream(o)
}

// reducing returns the options of an expression that mongod reduces while it parses, so
// that its failure is a parse error.
func (p *parsing) reducing() *expr.Options {
	o := *p.Expr
	o.Faults = nil
	return &o
}

// flatten replaces a stage by those that it expands to.
func (p *Pipeline) flatten() {
	var flat []Stage
	for _, s := range p.Stages {
		if seq, ok := s.(*sequence); ok {
			flat = append(flat, seq.stages...)
		} else {
			flat = append(flat, s)
		}
	}
	p.Stages = flat
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

// checkSource requires that a pipeline without a collection has a source of its own.
func (p *Pipeline) checkSource(opts *Options) error {
	if p.HasSource() || !opts.Collectionless || opts.inside == "$facet" {
		return nil
	}
	first := "an empty pipeline"
	if len(p.Stages) > 0 {
		first = p.Stages[0].Name()
	}
	return mongoerr.New(mongoerr.InvalidNamespace, "{aggregate: 1} is not valid for '%s'; a collection is required.", first)
}

// HasSource reports whether the pipeline reads no collection.
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
		if in = next; r.Stats != nil {
			in = observe(in, s, r)
		}
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

// mapped runs a function over each document; a nil result drops it.
type mapped struct {
	in Iterator
	r  *Run
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
		if err := m.r.check(ctx); err != nil {
			return nil, err
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

// Close releases the documents.
func (l *List) Close() { l.Docs = nil }
