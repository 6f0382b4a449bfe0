package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// Aggregation is a running pipeline.
type Aggregation struct {
	cursor *Cursor // what reads the collection, or nil
	out    pipeline.Iterator
	plain  bool // the cursor does it all
	inner  bool // its results are not the client's
}

// Read is Aggregate for a stage of another pipeline, which takes documents of
// any size.
func (x *Executor) Read(ctx context.Context, c *catalog.Collection, q *Query, p *pipeline.Pipeline, r *pipeline.Run) (pipeline.Iterator, error) {
	a, err := x.Aggregate(ctx, c, q, p, r)
	if err != nil {
		return nil, err
	}
	a.inner = true
	return a, nil
}

// Aggregate runs a pipeline over a collection, which is nil where there is
// none. q brings the collation, the hint and the like; what the pipeline's
// beginning asks for is put into it.
func (x *Executor) Aggregate(ctx context.Context, c *catalog.Collection, q *Query, p *pipeline.Pipeline, r *pipeline.Run) (*Aggregation, error) {
	if p.HasSource() {
		out, err := p.Open(nil, r)
		if err != nil {
			return nil, err
		}
		return &Aggregation{out: out}, nil
	}
	rest, err := pushDown(q, p)
	if err == nil {
		err = searchByDistance(c, q, p)
	}
	if err != nil {
		return nil, err
	}
	cur, err := x.Find(ctx, c, q)
	if err != nil {
		return nil, err
	}
	out, err := rest.Open(cur, r)
	if err != nil {
		return nil, err
	}
	return &Aggregation{cursor: cur, out: out, plain: len(rest.Stages) == 0}, nil
}

// pushDown puts the beginning of a pipeline into the query and returns the
// rest.
func pushDown(q *Query, p *pipeline.Pipeline) (*pipeline.Pipeline, error) {
	head, rest := p.Split()
	q.Filter, q.Sort, q.Skip, q.Limit = head.Filter, head.Sort, head.Skip, head.Limit
	if q.Filter == nil {
		var err error
		if q.Filter, err = match.Parse(bson.Empty, nil); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// Next returns the next document, valid until the following call; nil at the
// end.
//
// Errors: 10334 for a result that is larger than a document may be.
func (a *Aggregation) Next(ctx context.Context) (bson.Doc, error) {
	d, err := a.out.Next(ctx)
	if len(d) > bson.MaxInternalSize && !a.inner {
		return nil, bson.SizeError(len(d), d)
	}
	return d, err
}

// Close gives back what the pipeline holds.
func (a *Aggregation) Close() {
	if a.out != nil {
		a.out.Close()
	}
}

// Park lets go of the store until Unpark, where no stage above the query may
// hold what came from it.
func (a *Aggregation) Park() error {
	if !a.plain {
		return nil
	}
	return a.cursor.Park()
}

// Unpark takes the latest state of the store; see Cursor.Unpark.
func (a *Aggregation) Unpark(ctx context.Context) error {
	if !a.plain {
		return nil
	}
	return a.cursor.Unpark(ctx)
}

// Exhausted says whether the pipeline knows, without another Next, that it is
// at its end.
func (a *Aggregation) Exhausted() bool { return a.plain && a.cursor.Exhausted() }

// Examined returns how many keys and documents the query below has looked at so
// far.
func (a *Aggregation) Examined() (keys, docs int64) {
	if a.cursor == nil {
		return 0, 0
	}
	return a.cursor.Examined()
}

// Reads is the cursor below the pipeline, or nil where it has a source of its
// own.
func (a *Aggregation) Reads() *Cursor { return a.cursor }

// ExplainAggregate writes the explain of a pipeline into b: that of its query
// where nothing is left above it, else a list of stages.
func (x *Executor) ExplainAggregate(ctx context.Context, c *catalog.Collection, ns string, q *Query, p *pipeline.Pipeline, v Verbosity, b *bson.Builder) error {
	var rest *pipeline.Pipeline
	if !p.HasSource() {
		var err error
		if rest, err = pushDown(q, p); err != nil {
			return err
		}
		if err = searchByDistance(c, q, p); err != nil {
			return err
		}
		if len(rest.Stages) == 0 {
			return x.Explain(ctx, c, ns, &Explained{Query: q}, v, b)
		}
	}
	b.OpenArray("stages")
	n := 0
	if rest != nil {
		b.OpenDoc("0").OpenDoc("$cursor")
		if err := x.Explain(ctx, c, ns, &Explained{Query: q}, v, b); err != nil {
			return err
		}
		b.Close().Close()
		n = 1
		p = rest
	}
	for _, d := range p.Serialize() {
		b.Doc(bson.Index(n), d)
		n++
	}
	b.Close()
	return nil
}
