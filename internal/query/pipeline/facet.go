package pipeline

import (
	"context"
	"iter"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

const (
	// facetBatch is how many bytes of input all facets read before the next ones
	// are fetched.
	facetBatch = 1 << 20
	// maxFacet bounds what one $facet collects, in bytes
	// (internalQueryFacetMaxOutputDocSizeBytes).
	maxFacet = 100 << 20
)

// Facet is {$facet: {name: pipeline, …}}: pipelines over the same documents.
type Facet struct {
	names     []string
	pipelines []*Pipeline
	outer     int // variables in scope
}

func parseFacet(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument || arg.Doc().IsEmpty() {
		return nil, mongoerr.New(40169, "the $facet specification must be a non-empty object, but found: %s", arg)
	}
	f := &Facet{outer: len(p.Expr.Vars)}
	for it := arg.Doc().Iter(); it.Next(); {
		if err := expr.ValidateFieldName(it.Key); err != nil {
			return nil, err
		}
		if it.Value.Type != bson.TypeArray {
			return nil, mongoerr.New(40170, "arguments to $facet must be arrays, %s is type %s", it.Key, it.Value.Type)
		}
		for e := range it.Value.Doc().Values() {
			if e.Type != bson.TypeDocument {
				return nil, mongoerr.New(40171, "elements of arrays in $facet spec must be non-empty objects, %s argument contained an element of type %s: %s", it.Key, e.Type, e)
			}
		}
		opts := *p.Options
		opts.inside, opts.inFacet, opts.Meta = "$facet", true, nil
		sub, faults, err := parse(it.Value.Doc().Slice(), &opts)
		if err != nil {
			return nil, err
		}
		if err := faults.Err("pipeline"); err != nil {
			p.Expr.Faults.Add(err)
		}
		f.names, f.pipelines = append(f.names, it.Key), append(f.pipelines, sub.Optimize())
	}
	return f, nil
}

// Name is the stage's name.
func (f *Facet) Name() string { return "$facet" }

// Serialize is the pipelines.
func (f *Facet) Serialize() bson.Value {
	var b bson.Builder
	for i, p := range f.pipelines {
		b.OpenArray(f.names[i])
		for j, d := range p.Serialize() {
			b.Doc(bson.Index(j), d)
		}
		b.Close()
	}
	return bson.Document(b.Finish())
}

// Pipelines are the pipelines by their names.
func (f *Facet) Pipelines() iter.Seq2[string, *Pipeline] {
	return func(yield func(string, *Pipeline) bool) {
		for i, p := range f.pipelines {
			if !yield(f.names[i], p) {
				return
			}
		}
	}
}

// Open delivers one document.
func (f *Facet) Open(in Iterator, r *Run) (Iterator, error) {
	return &faceting{f: f, in: in, r: r, hold: r.Env.Hold()}, nil
}

// faceting runs a Facet: the documents are read in batches, and every pipeline reads a
// batch before the next one is fetched. A pipeline is a coroutine that is suspended
// while it waits for a batch.
type faceting struct {
	f     *Facet
	in    Iterator
	r     *Run
	done  bool
	batch []faceted
	ended bool // there are no more batches
	bytes int  // of all results
	hold  memory.Holding

	branches []*branch
	fetching time.Duration
}

// faceted is a document of a batch.
type faceted struct{ doc, meta bson.Doc }

func (f *faceting) Close() {
	f.in.Close()
	f.batch = nil
	f.hold.Release()
}

func (f *faceting) Next(ctx context.Context) (bson.Doc, error) {
	if f.done {
		return nil, nil
	}
	f.done = true
	branches := make([]*branch, len(f.f.pipelines))
	f.branches = branches
	for i, p := range f.f.pipelines {
		b := &branch{f: f, run: f.r.within(f.f.outer, nil)}
		if f.r.Stats != nil {
			b.run.Stats = &b.stats
		}
		var stop func()
		b.resume, stop = iter.Pull(func(wait func(struct{}) bool) { b.pull(ctx, p, wait) })
		defer stop()
		branches[i] = b
	}
	for {
		waiting := false
		for _, b := range branches {
			if b.over {
				continue
			}
			_, more := b.resume()
			if b.over = !more; b.err != nil {
				return nil, b.err
			}
			waiting = waiting || more
		}
		if !waiting {
			break
		}
		if err := f.fetch(ctx); err != nil {
			return nil, err
		}
	}
	f.r.Meta = nil
	var out bson.Builder
	for i, b := range branches {
		out.Array(f.f.names[i], b.out.Finish())
	}
	return out.Finish(), nil
}

// fetch reads the next batch.
func (f *faceting) fetch(ctx context.Context) error {
	begun := time.Now()
	defer func() { f.fetching += time.Since(begun) }()
	f.batch = f.batch[:0]
	for size := 0; size < facetBatch && !f.ended; {
		if err := f.hold.Set(size + 2*f.bytes); err != nil {
			return err
		}
		d, err := f.in.Next(ctx)
		if err != nil {
			return err
		}
		if f.ended = d == nil; f.ended {
			break
		}
		size += len(d)
		f.batch = append(f.batch, faceted{d.Clone(), f.r.Meta})
	}
	return nil
}

// branch is a running pipeline of a Facet. It is the Iterator that its stages read from.
type branch struct {
	f      *faceting
	run    *Run
	resume func() (struct{}, bool)
	wait   func(struct{}) bool
	at     int // in the batch
	over   bool
	out    bson.Builder // an array
	err    error

	read  int64 // documents
	stats []*StageStats
}

// Branch is what one pipeline of a $facet did, for explain.
type Branch struct {
	Read   int64         // documents
	Time   time.Duration // spent below the $facet
	Stages []*StageStats
}

// Branches are the pipelines of a $facet, nil for any other stage.
func (s *StageStats) Branches() []Branch {
	f, ok := s.it.(*faceting)
	if !ok {
		return nil
	}
	out := make([]Branch, len(f.branches))
	for i, b := range f.branches {
		out[i] = Branch{b.read, f.fetching, b.stats}
	}
	return out
}

// pull runs the pipeline to its end.
func (b *branch) pull(ctx context.Context, p *Pipeline, wait func(struct{}) bool) {
	b.wait = wait
	if !wait(struct{}{}) {
		return
	}
	it, err := p.Open(b, b.run)
	if err != nil {
		b.err = err
		return
	}
	defer it.Close()
	b.out.Reset(nil)
	for i := 0; ; i++ {
		d, err := it.Next(ctx)
		if err != nil || d == nil {
			b.err = err
			return
		}
		if b.f.bytes += len(d); b.f.bytes > maxFacet {
			b.err = mongoerr.New(4031700, "document constructed by $facet is %d bytes, which exceeds the limit of %d bytes", b.f.bytes, maxFacet)
			return
		}
		// The results are copied once more at the end.
		if err := b.f.hold.Set(facetBatch + 2*b.f.bytes); err != nil {
			b.err = err
			return
		}
		b.out.Doc(bson.Index(i), d)
	}
}

// Close does nothing: the documents are the stage's.
func (b *branch) Close() {}

// Next delivers the next document of the batch, and waits for a batch where
// that one is read.
func (b *branch) Next(context.Context) (bson.Doc, error) {
	for b.at == len(b.f.batch) {
		if b.f.ended {
			return nil, nil
		}
		if !b.wait(struct{}{}) {
			return nil, nil
		}
		b.at = 0
	}
	d := b.f.batch[b.at]
	b.at++
	b.read++
	b.run.Meta = d.meta
	return d.doc, nil
}
