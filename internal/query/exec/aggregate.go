package exec

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/query/exec/readahead"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// Aggregation is a running pipeline.
type Aggregation struct {
	cursor *Cursor // what reads the collection, or nil
	out    pipeline.Iterator
	plain  bool // the cursor does everything
	sorts  bool // a stage above it sorts
	inner  bool // its results are not the client's
	// unbounded says that results that are too large are split by who reads them.
	unbounded bool
	async     *readahead.Input // what reads the cursor in a goroutine, or nil
	run       *pipeline.Run
	memory    memory.Account // of the pipeline, unless it is part of another
	parkable  bool           // no stage above the query pins the store
	begun     bool
	parked    bool
	// counted says that the run's counters include those of an inner pipeline.
	counted bool
}

// Read is Aggregate for a stage of another pipeline, which takes documents of
// any size.
func (x *Executor) Read(ctx context.Context, c *catalog.Collection, q *Query, p *pipeline.Pipeline, r *pipeline.Run) (pipeline.Iterator, error) {
	a, err := x.aggregate(ctx, c, q, p, r, true)
	if err != nil {
		return nil, err // and no Iterator that is a nil *Aggregation
	}
	return a, nil
}

// Aggregate runs a pipeline over a collection, which is nil if there is
// none. q brings the collation, the hint and the like; what the pipeline's
// beginning asks for is put into it.
func (x *Executor) Aggregate(ctx context.Context, c *catalog.Collection, q *Query, p *pipeline.Pipeline, r *pipeline.Run) (*Aggregation, error) {
	return x.aggregate(ctx, c, q, p, r, false)
}

func (x *Executor) aggregate(ctx context.Context, c *catalog.Collection, q *Query, p *pipeline.Pipeline, r *pipeline.Run, inner bool) (*Aggregation, error) {
	a := &Aggregation{inner: inner, run: r}
	if r.Env.Memory == nil {
		a.memory.Open(x.Memory)
		r.Env.Memory = &a.memory
	}
	if r.Inside == nil {
		r.Inside = new(pipeline.Examined)
	}
	if err := x.open(ctx, a, c, q, p); err != nil {
		a.giveBack()
		return nil, err
	}
	return a, nil
}

// open starts the pipeline.
func (x *Executor) open(ctx context.Context, a *Aggregation, c *catalog.Collection, q *Query, p *pipeline.Pipeline) (err error) {
	r, inner := a.run, a.inner
	if p.HasSource() {
		a.unbounded = p.SplitsEvents()
		r.Env.Watch(ctx)
		a.out, err = p.Open(nil, r)
		return err
	}
	rest, err := pushDown(q, p)
	if err == nil {
		err = searchByDistance(c, q, p)
	}
	if err != nil {
		return err
	}
	q.KeyRead = slices.Contains(rest.Meta(), "sortKey")
	if q.Env != nil {
		q.Env.Memory = r.Env.Memory
	}
	early := !inner && c != nil && !c.IsTimeseries() && mayReadAsync(q, rest)
	if early {
		q.Env = q.Env.Fork()
	}
	q.FullyConsumed = rest.ConsumesAll()
	q.PinsSnapshot = !q.FullyConsumed && !rest.Streams()
	found, err := x.start(ctx, c, q, x.reads(c, q, rest))
	if err != nil {
		return err
	}
	a.cursor, a.plain = &Cursor{r: found}, len(rest.Stages) == 0
	a.sorts = slices.ContainsFunc(rest.Stages, func(s pipeline.Stage) bool { _, ok := s.(*pipeline.Sort); return ok })
	in := timeseriesInput(c, a.cursor)
	if early {
		a.async = readahead.NewInput(in, rest.Reads())
		in = a.async
	}
	if a.parkable = a.plain || rest.Streams(); a.parkable && !a.plain {
		in = &copying{in: in}
	}
	if a.out, err = rest.Open(withMeta(in, found.meta.value, rest, r), r); err != nil {
		return err
	}
	return nil
}

// copying returns copies of documents, which outlive the iterator that they come from:
// a stage above may hold one between two batches.
type copying struct {
	in  pipeline.Iterator
	doc bson.Doc
}

func (c *copying) Close() { c.in.Close() }

func (c *copying) Next(ctx context.Context) (bson.Doc, error) {
	d, err := c.in.Next(ctx)
	if err != nil || d == nil {
		return nil, err
	}
	c.doc = append(c.doc[:0], d...)
	return c.doc, nil
}

// mayReadAsync reports whether a pipeline over q consumes all results of q before it
// returns one, and shares no state with q while both run: collators have buffers,
// JavaScript has variables.
func mayReadAsync(q *Query, rest *pipeline.Pipeline) bool {
	return q.Collator == nil && rest.ConsumesAll() && len(rest.Meta()) == 0 && !q.Tailable && !evaluates(q.Filter.Root())
}

// evaluates reports whether a predicate has expressions or JavaScript in it.
func evaluates(n match.Node) bool {
	switch n := n.(type) {
	case *match.And:
		return slices.ContainsFunc(n.Children, evaluates)
	case *match.Or:
		return slices.ContainsFunc(n.Children, evaluates)
	case *match.Nor:
		return slices.ContainsFunc(n.Children, evaluates)
	case *match.Not:
		return evaluates(n.Child)
	case match.Leaf:
		return false
	}
	return true
}

// withMeta requests the metadata that the pipeline reads. A $geoNear requests its own.
func withMeta(cur pipeline.Iterator, known func(string) bson.Value, rest *pipeline.Pipeline, r *pipeline.Run) pipeline.Iterator {
	names := rest.Meta()
	if len(names) == 0 {
		return cur
	}
	if _, near := rest.Stages[0].(*pipeline.GeoNear); near {
		return cur
	}
	return r.Describe(cur, names, known)
}

// pushDown moves the first stages of a pipeline into the query and returns the rest.
func pushDown(q *Query, p *pipeline.Pipeline) (*pipeline.Pipeline, error) {
	head, rest := p.Split()
	q.Filter, q.Sort, q.Skip, q.Limit = head.Filter, head.Sort, head.Skip, head.Limit
	if q.Filter == nil {
		var err error
		if q.Filter, err = match.Parse(bson.Empty, nil); err != nil {
			return nil, err
		}
	}
	q.TextScore = slices.Contains(rest.Meta(), "textScore")
	if len(rest.Stages) > 0 && isShaping(rest.Stages[0]) {
		q.Above = rest.Stages[0].Name()
		if paths, whole := rest.Needs(); !whole {
			q.Fields = paths
		}
	}
	return rest, nil
}

// shaping has the stages that belong to the query's shape, because the server executes
// them with the query.
var shaping = map[string]bool{
	"$group": true, pipeline.StatesStage: true, "$lookup": true, "$count": true, "$sortByCount": true, "$bucket": true, "$bucketAuto": true, "$project": true,
	"$replaceRoot": true, "$replaceWith": true, "$densify": true,
}

func isShaping(s pipeline.Stage) bool {
	if s.Name() == "$_internalSetWindowFields" {
		arg := s.Serialize()
		return arg.Type == bson.TypeDocument && arg.Doc().Has("sortBy")
	}
	return shaping[s.Name()]
}

// Next returns the next document, valid until the following call; nil at the
// end.
//
// Errors: 10334 for a result that is larger than a document may be.
func (a *Aggregation) Next(ctx context.Context) (bson.Doc, error) {
	a.begun = true
	a.run.Env.Watch(ctx)
	d, err := a.out.Next(ctx)
	if len(d) > bson.MaxInternalSize && !a.inner && !a.unbounded {
		return nil, bson.SizeError(len(d), d)
	}
	return d, err
}

// Close releases the resources of the pipeline.
func (a *Aggregation) Close() {
	if a.inner && a.cursor != nil && !a.counted {
		a.counted = true
		a.run.Inside.Add(a.cursor.Examined())
	}
	if a.out != nil {
		a.out.Close()
	}
	a.giveBack()
}

// giveBack releases the memory of the pipeline.
func (a *Aggregation) giveBack() {
	a.memory.Close()
	if a.run.Env.Memory == &a.memory {
		a.run.Env.Memory = nil
	}
}

// Park releases the store until Unpark, including what stages read in addition.
// A stage that reads all its input first has done so by then, or has not begun.
func (a *Aggregation) Park() error {
	if a.cursor != nil && (a.parkable || !a.begun || a.cursor.r.winner.ended) {
		a.parked = true
		if err := a.cursor.Park(); err != nil {
			return err
		}
	}
	return a.run.Park()
}

// Unpark takes the latest state of the store; see Cursor.Unpark.
func (a *Aggregation) Unpark(ctx context.Context) error {
	if a.parked {
		a.parked = false
		if err := a.cursor.Unpark(ctx); err != nil {
			return err
		}
	}
	return a.run.Unpark(ctx)
}

// Exhausted reports whether the pipeline knows, without another Next, that it is
// at its end.
func (a *Aggregation) Exhausted() bool { return a.plain && a.cursor.Exhausted() }

// Examined returns how many keys and documents the query below has examined so
// far, and the pipelines of stages that have been read. The caller tries no Next
// again that has failed.
func (a *Aggregation) Examined() (keys, docs int64) {
	keys, docs = a.run.Inside.Counts()
	if a.cursor == nil {
		return keys, docs
	}
	if a.async != nil {
		a.async.Stop()
	}
	k, d := a.cursor.Examined()
	return keys + k, docs + d
}

// Sorts reports whether the pipeline sorts in memory, and whether the query below
// spilled.
func (a *Aggregation) Sorts() (sorts, spilled bool) {
	if a.cursor != nil {
		sorts, spilled = a.cursor.Sorts()
	}
	return sorts || a.sorts, spilled
}

// ExecStats is what the stages of the query below have done.
func (a *Aggregation) ExecStats() bson.Doc {
	if a.cursor == nil {
		return bson.Empty
	}
	return a.cursor.ExecStats()
}

// LookupStats is what the query below has read, for the $lookup above it.
func (a *Aggregation) LookupStats() pipeline.LookupStats {
	var l pipeline.LookupStats
	if a.cursor != nil {
		l.Keys, l.Docs = a.cursor.Examined()
		scanned(a.cursor.r.winner.node, &l)
	}
	return l
}

// scanned adds the scans and indexes of a plan.
func scanned(n plan.Node, l *pipeline.LookupStats) {
	switch n := n.(type) {
	case *plan.CollScan:
		l.Scans++
	case *plan.IDHack:
		l.Indexes = append(l.Indexes, "_id_")
	case *plan.Express:
		if n.Index == nil {
			l.Indexes = append(l.Indexes, "_id_")
		} else {
			l.Indexes = append(l.Indexes, n.Index.Name)
		}
	case *plan.IndexScan:
		l.Indexes = append(l.Indexes, n.Index.Name)
	case *plan.CountScan:
		l.Indexes = append(l.Indexes, n.Index.Name)
	case *plan.DistinctScan:
		l.Indexes = append(l.Indexes, n.Index.Name)
	case *plan.GeoNear:
		l.Indexes = append(l.Indexes, n.Index.Name)
	}
	for _, in := range n.Inputs() {
		scanned(in, l)
	}
}

// Hides reports whether documents may leave the result while it is read, because
// they are hidden from the instant on at which they are due.
func (a *Aggregation) Hides() bool {
	return a.cursor != nil && (a.cursor.r.source.visibility != nil || a.cursor.r.source.pending.catalog != nil)
}

// Reads is the cursor below the pipeline, or nil if it has a source of its
// own.
func (a *Aggregation) Reads() *Cursor { return a.cursor }
