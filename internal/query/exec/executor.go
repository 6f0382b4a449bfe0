package exec

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/query/exec/plancache"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Executor runs queries and writes over one catalog. Safe for use by many
// goroutines.
type Executor struct {
	Catalog *catalog.Catalog
	// SpillDir is where sorts put what memory cannot hold.
	SpillDir string
	// Memory is the budget of all operations; nil for none.
	Memory *memory.Budget
	// Counts are what queries have done so far, for serverStatus.
	Counts Counts

	descriptors descriptors
}

// Query is a plan.Query with what else is needed to run it. Its Env, which evaluates
// $expr and projections, belongs to the query from now on.
type Query struct {
	plan.Query
	// Batch is how many results the reader asks for first; 0 if that is not known.
	Batch int64
	// AllowDiskUse lets sorts spill.
	AllowDiskUse bool
	// FullyConsumed says that the reader takes all results before it uses any.
	FullyConsumed bool
	// KeyRead says that what is above the query reads {$meta: "sortKey"}, as its
	// projection may, too.
	KeyRead bool
	// At, if not nil, is the state of the store that is read instead of the newest one.
	// It stays open until the cursor is closed.
	At *StoreState
	// PinsSnapshot says that the cursor may keep its snapshot between two batches of a
	// client, so no goroutine may work for it then.
	PinsSnapshot bool
	// Preferred are the indexes that the settings of the query leave it, in place of an index
	// filter or a hint; nil for no settings.
	Preferred *Preferred
	// All finds what is hidden, too, whether it has expired or lies in a hidden range.
	All bool
	// Held, if not nil, is called when the query holds its state of the store: its error
	// says that this is not what the statement may see (invariant held).
	Held func() error
	// ShowRecordID adds $recordId to each document.
	ShowRecordID bool
	// Memory is the memory for the query; nil to allocate it. It must not be used
	// for another query before the cursor is finished.
	Memory *QueryMemory
	// Resume, if not nil, is where a find that scans the collection begins, and
	// ResumeToken asks it where another one could.
	Resume      *Resume
	ResumeToken bool

	leavesOut bool // the filter matches only documents that the shard owns
	// ownedOnly says that a count of the whole collection leaves out what the shard does not
	// own, by counting that.
	ownedOnly bool
}

// leaveOut restricts the query to documents that the shard owns, if the collection has
// others as well.
func (q *Query) leaveOut(c *catalog.Collection) {
	if c == nil || q.leavesOut || q.All || c.Sharding() == nil || len(c.Sharding().Hidden) == 0 {
		return
	}
	q.leavesOut, q.Filter = true, q.Filter.AndOwned(c.Sharding().Hides)
}

// StoreState is a state of the store at a time.
type StoreState struct {
	Snapshot storage.State
	// ExpiryTime is the instant by which rules hide documents, in milliseconds since 1970
	// (catalog.Clock.ExpiryTime).
	ExpiryTime int64
	// Serial says that only one goroutine may read it at a time.
	Serial bool
	// Knows reports whether a descriptor is sure to be that of the state; nil for no.
	Knows func(*catalog.Collection) bool
}

// QueryMemory is memory that queries hand on, which keeps nothing of one that is over
// once it is set to the zero value.
type QueryMemory struct {
	run     running
	express express
}

// newRun allocates a run.
func (q *Query) newRun() *running {
	if q.Memory == nil {
		return new(running)
	}
	return &q.Memory.run
}

// running is a query with its chosen plan and its snapshot.
type running struct {
	x        *Executor
	coll     *catalog.Collection
	query    *Query
	snapshot storage.State // nil while the cursor is parked
	meta     metaReader    // what {$meta: …} reads of the row at hand
	source   source
	first    candidate // where there is but one
	winner   *candidate
	rejected []*candidate
	builder  builder
	choice
	runner
	cursor Cursor // of a Find

	account memory.Account // of the query, unless it is part of another operation
	hand    memory.Holding // of the document at hand
	planned memory.Holding // of the filter and its plans, where that is large
}

// largeDocument is the size, in bytes, from which on the current document counts against
// the operation's memory.
const largeDocument = 64 << 10

// copiesAtHand is the number of copies of a document in memory while it is read: in its
// block, compressed and uncompressed, and in the result.
const copiesAtHand = 3

// largeFilter is the size, in bytes, from which on filters count against the operation's
// memory, and copiesPlanned the number of copies that are counted: a value of a long list
// becomes a node, an index bound and a key.
const (
	largeFilter   = 16 << 10
	copiesPlanned = 12
)

// open opens a memory account for the query, unless the operation has one.
func (r *running) open() {
	if r.query.Env.Memory == nil {
		r.account.Open(r.x.Memory)
		r.query.Env.Memory = &r.account
	}
	r.hand, r.planned = r.query.Env.Hold(), r.query.Env.Hold()
}

// expectPlan reserves memory for the parsed filter, and its plans.
func (r *running) expectPlan() error {
	if n := r.query.Filter.Size(); n > largeFilter {
		return r.planned.Set(copiesPlanned * n)
	}
	return nil
}

// expectLarge reserves memory for a document before the first read, if the collection's
// documents are large.
func (r *running) expectLarge() error {
	if size := averageSize(r.coll); size > largeDocument {
		return r.hand.Set(copiesAtHand * size)
	}
	return nil
}

// averageSize returns the average size of a collection's documents in bytes, 0 if unknown.
// The collection may be nil.
func averageSize(c *catalog.Collection) int {
	if c == nil || c.Virtual() != nil || c.Count() <= 0 {
		return 0
	}
	return int(c.DataSize() / c.Count())
}

// nodes plans a query. adjust, if not nil, is applied to each candidate.
func (x *Executor) nodes(c *catalog.Collection, q *Query, adjust func(plan.Node) plan.Node) ([]plan.Node, error) {
	if c == nil && match.TextIn(q.Filter.Root()) != nil {
		return nil, plan.ErrNoTextIndex
	}
	var nodes []plan.Node
	if c == nil {
		nodes = []plan.Node{&plan.EOF{NoCollection: true}}
	} else {
		q.leaveOut(c)
		plancache.ApplyFilter(c, &q.Query)
		q.Hides = c.Hiding() != nil && !q.All
		var err error
		if nodes, err = x.candidatesOf(c, q); err != nil {
			return nil, err
		}
	}
	if adjust != nil {
		for i := range nodes {
			nodes[i] = adjust(nodes[i])
		}
		if i := slices.IndexFunc(nodes, readsLeast); i >= 0 {
			nodes = nodes[i : i+1]
		}
	}
	return nodes, nil
}

// Preferred are the indexes that a query may use, as its settings say.
type Preferred struct {
	// Allows reports whether an index is one of them, Scans whether a scan of the collection
	// is, too.
	Allows func(*schema.Index) bool
	Scans  bool
	// Settings is what explain shows of them.
	Settings bson.Doc
}

// candidatesOf lists the plans of a query over a collection. Those that the query's settings
// do not allow are left out, if there are others.
func (x *Executor) candidatesOf(c *catalog.Collection, q *Query) ([]plan.Node, error) {
	described := x.describe(c)
	if q.Preferred == nil || q.Preferred.Allows == nil {
		return plan.Candidates(described, &q.Query)
	}
	filter := q.Allowed
	q.Allowed = q.Preferred.Allows
	nodes, err := plan.Candidates(described, &q.Query)
	scans := func(n plan.Node) bool {
		return has(n, func(n plan.Node) bool { _, ok := n.(*plan.CollScan); return ok })
	}
	if err == nil && (q.Preferred.Scans || !slices.ContainsFunc(nodes, scans)) {
		return nodes, nil
	}
	q.Allowed = filter
	return plan.Candidates(described, &q.Query)
}

// start plans a query over a fresh snapshot and chooses among the plans: the
// cached one, or the winner of a trial.
func (x *Executor) start(ctx context.Context, c *catalog.Collection, q *Query, adjust func(plan.Node) plan.Node) (*running, error) {
	r, err := x.prepare(ctx, c, q, adjust)
	if err != nil {
		return nil, err
	}
	err = r.expectLarge()
	if err == nil {
		err = r.choose(ctx)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	for _, c := range r.rejected {
		if err := c.stage.Close(); err != nil {
			r.close()
			return nil, err
		}
	}
	r.source.planChosen(mayHoldRows(r.winner.node))
	r.markUsed(r.winner.node)
	return r, nil
}

// prepare plans a query and builds all candidates, without running any.
func (x *Executor) prepare(ctx context.Context, c *catalog.Collection, q *Query, adjust func(plan.Node) plan.Node) (*running, error) {
	if q.Env == nil {
		q.Env = expr.NewEnv(0)
	}
	q.Env.Watch(ctx)
	if c != nil && c.IsTimeseries() {
		return x.prepareMeasurements(c, q, adjust)
	}
	q.leaveOut(c)
	r := q.newRun()
	*r = running{x: x, coll: c, query: q, meta: metaReader{coll: c}}
	r.open()
	q.Env.Watch(ctx)
	if err := r.expectPlan(); err != nil {
		r.abandon()
		return nil, err
	}
	r.readsSortKey()
	var reader storage.Reader = x.Catalog.Engine()
	var before catalog.Watermark
	turns := 0
	if c != nil {
		before, turns = c.Watermark(), c.Turns()
	}
	switch {
	case q.At != nil:
		r.snapshot, before = q.At.Snapshot.Share(), catalog.Watermark{}
		reader = r.snapshot
	case !isLookup(c, q) || q.Held != nil:
		r.snapshot = x.Catalog.Engine().NewSnapshot()
		reader = r.snapshot
	}
	if q.Held != nil {
		if err := q.Held(); err != nil {
			r.abandon()
			return nil, err
		}
	}
	nodes, err := x.nodes(c, q, adjust)
	if err != nil {
		r.abandon()
		return nil, err
	}
	r.source = source{coll: c, reader: reader, env: q.Env, turns: turns}
	if q.At != nil {
		r.source.expiryTime = q.At.ExpiryTime
	}
	if c != nil && c.Hiding() != nil && !q.All {
		r.source.prepareVisibility(x.Catalog, before, r.snapshot != nil, nodes[0])
	}
	r.builder = builder{source: &r.source, env: q.Env, coll: q.Collator, meta: &r.meta, fullyConsumed: q.FullyConsumed, keyed: q.ReadsKeys(), parallelizable: !q.PinsSnapshot && !q.Tailable && (q.At == nil || !q.At.Serial), batch: q.Batch}
	if has(nodes[0], knowsMeta) || q.Projection != nil && len(q.Projection.Meta()) > 0 {
		q.Env.Meta = r.meta.value
	}
	if c != nil {
		if r.builder.count, err = r.countDocuments(); err != nil {
			r.abandon()
			return nil, err
		}
		if n, ok := nodes[0].(*plan.Count); ok && n.Input == nil {
			switch {
			case q.ownedOnly:
				r.builder.count, err = r.source.countOwned(ctx)
			case r.source.visibility != nil:
				r.builder.count, err = r.source.countVisible(ctx)
			}
			if err != nil {
				r.abandon()
				return nil, err
			}
		}
	}
	if q.Paths != nil {
		r.builder.fields = expr.FirstNames(q.Paths)
	}
	if q.AllowDiskUse {
		r.builder.spillDir = x.SpillDir
	}
	r.builder.memory = q.Memory
	for i, n := range nodes {
		stage, err := r.built(n)
		switch {
		case err != nil:
			r.abandon()
			return nil, err
		case i == 0:
			r.first = candidate{node: n, stage: stage, hold: r.source.hold()}
			r.winner, r.runner.candidate = &r.first, &r.first
		default:
			r.rejected = append(r.rejected, &candidate{node: n, stage: stage, hold: r.source.hold()})
		}
	}
	return r, nil
}

// countDocuments counts the documents of the collection in the query's snapshot.
func (r *running) countDocuments() (int64, error) {
	switch {
	case r.coll.Virtual() != nil:
		return 0, nil // no plan has such a limit
	case r.query.At == nil:
		return r.coll.Count(), nil
	}
	n, _, err := storage.ReadCounter(r.snapshot, r.coll.Ident)
	return n, err
}

// built builds the stages of a plan. The error is that of the operation, which may end
// before a large plan is built.
func (r *running) built(n plan.Node) (s stage.Stage, err error) {
	defer expr.Interrupted(&err)
	r.builder.interrupt.Of = r.query.Env
	return r.builder.build(n), nil
}

// isLookup reports whether a query only reads one record, which needs no snapshot: a single
// get is consistent.
func isLookup(c *catalog.Collection, q *Query) bool {
	if c == nil || !c.FindsByID() || q.Distinct != "" || q.Sort.Natural() != 0 {
		return false
	}
	_, ok := plan.PointID(&q.Query, c.Options.Lookup("collation").Data)
	return ok
}

// markUsed counts an access of each index of a plan.
func (r *running) markUsed(n plan.Node) {
	switch n := n.(type) {
	case *plan.IndexScan:
		n.Index.Handle.(*catalog.Index).MarkUsed()
	case *plan.GeoNear:
		n.Index.Handle.(*catalog.Index).MarkUsed()
	case *plan.CountScan:
		n.Index.Handle.(*catalog.Index).MarkUsed()
	case *plan.DistinctScan:
		n.Index.Handle.(*catalog.Index).MarkUsed()
	case *plan.IDHack:
		r.coll.Indexes()[0].MarkUsed()
	case *plan.Express:
		if n.Index != nil {
			n.Index.Handle.(*catalog.Index).MarkUsed()
		} else {
			r.coll.Indexes()[0].MarkUsed()
		}
	}
	for _, in := range n.Inputs() {
		r.markUsed(in)
	}
}

// next returns the next row, valid until the following call. Expressions end
// with ctx.
func (r *running) next(ctx context.Context, row *stage.Row) (bool, error) {
	r.query.Env.Watch(ctx)
	for {
		ok, err := r.runner.next(ctx, row)
		if len(row.Doc) > largeDocument && err == nil {
			err = r.hand.Set(copiesAtHand * len(row.Doc))
			r.x.Memory.Settle(copiesAtHand * len(row.Doc)) // a row is garbage once the next one is read
		}
		if err != nil || !ok || !r.source.expiredSince(row) {
			return ok, err
		}
	}
}

// close releases stages and snapshot.
func (r *running) close() {
	r.x.Counts.sorted(r.winner.stage)
	r.winner.stage.Close()
	for _, c := range r.rejected {
		c.stage.Close()
	}
	r.abandon()
}

// abandon releases the resources of a query without stages.
func (r *running) abandon() {
	r.release()
	r.account.Close()
	if r.query.Env.Memory == &r.account {
		r.query.Env.Memory = nil
	}
}

// release releases the snapshot.
func (r *running) release() {
	if r.snapshot != nil {
		r.snapshot.Close()
		r.snapshot = nil
	}
}

// Cursor delivers the documents of a query.
type Cursor struct {
	r        *running
	row      stage.Row
	arrivals <-chan struct{} // notified when there may be new documents
	token    []byte          // the record returned last, if the query requests it
	before   []byte          // and the one before
	keeps    bool            // it is parked, and keeps its snapshot
}

// Find runs a query. c is nil if the collection does not exist.
func (x *Executor) Find(ctx context.Context, c *catalog.Collection, q *Query) (*Cursor, error) {
	r, err := x.start(ctx, c, q, nil)
	if err != nil {
		return nil, err
	}
	if err := r.resume(ctx); err != nil {
		r.close()
		return nil, err
	}
	r.cursor.r = r
	return &r.cursor, nil
}

// Next returns the next document, valid until the following call; nil at the end.
// Errors: 175 if the collection has been dropped.
func (c *Cursor) Next(ctx context.Context) (bson.Doc, error) {
	if c.r.coll != nil {
		if err := c.r.coll.Check(); err != nil {
			return nil, err
		}
	}
	ok, err := c.r.next(ctx, &c.row)
	if err != nil || !ok {
		return nil, err
	}
	c.r.meta.about(&c.row)
	c.passed()
	if c.r.query.ShowRecordID {
		return c.withRecordID(), nil
	}
	if c.row.Doc == nil { // a plan without a reader
		return bson.Empty, nil
	}
	return c.row.Doc, nil
}

// withRecordID adds the record's number.
func (c *Cursor) withRecordID() bson.Doc {
	var b bson.Builder
	b.Reset(nil).Fields(c.row.Doc)
	return b.Value("$recordId", c.r.meta.recordID()).Finish()
}

// Record returns the record key of the document that Next returned.
func (c *Cursor) Record() []byte { return c.row.Record }

// Close releases the resources of the query.
func (c *Cursor) Close() { c.r.close() }

// Express says that the plan is the short way to one document, which is over with
// Close.
func (c *Cursor) Express() bool {
	_, ok := c.r.winner.stage.(*express)
	return ok
}

// Summary is the plan in a few words.
func (c *Cursor) Summary() string { return Summary(c.r.winner.node) }

// Examined returns how many keys and documents were examined so far.
func (c *Cursor) Examined() (keys, docs int64) { return totals(c.r.winner.stage) }

// FromTrial reports whether several plans were tried.
func (c *Cursor) FromTrial() bool { return c.r.tried }

// Choice returns the names of the query's shape and of its plan cache key, ""
// if there was no choice of plans, and whether the plan came from the cache
// or was thrown out of it.
func (c *Cursor) Choice() (shape, key string, cached, replanned bool) {
	if c.r.key == "" {
		return "", "", false, false
	}
	return c.r.shape.Hash(), c.r.key, c.r.cached, c.r.replanned
}

// ExecStats is the tree of stages with their counters so far, as the profiler
// shows it.
func (c *Cursor) ExecStats() bson.Doc { return c.r.stats() }

func (r *running) stats() bson.Doc {
	return plan.Explain(r.winner.node, countersOf(r.winner.stage), plan.MaxExplain)
}

// Sorts reports whether the plan sorts in memory, and whether it spilled.
func (c *Cursor) Sorts() (sorts, spilled bool) { return sorting(c.r.winner.stage) }

func sorting(s stage.Stage) (sorts, spilled bool) {
	if so, ok := s.(*sorter); ok {
		return true, so.rows.Stats.Spills > 0
	}
	for _, in := range s.Inputs() {
		if sorts, spilled = sorting(in); sorts {
			return
		}
	}
	return
}

// Count counts the documents that q matches, within its skip and limit.
func (x *Executor) Count(ctx context.Context, c *catalog.Collection, q *Query) (*Counted, error) {
	r, err := x.start(ctx, c, q, x.counting(c, q))
	if err != nil {
		return nil, err
	}
	defer r.close()
	var row stage.Row
	if _, err := r.next(ctx, &row); err != nil {
		return nil, err
	}
	n := int64(0)
	if s, ok := r.winner.stage.(*count); ok {
		n = s.n
	}
	keys, docs := totals(r.winner.stage)
	return &Counted{N: n, Summary: Summary(r.winner.node), Keys: keys, Docs: docs, Stats: r.stats}, nil
}

// Counted is the outcome of Count.
type Counted struct {
	N          int64
	Summary    string
	Keys, Docs int64
	// Stats is the tree of stages with their counters, as the profiler shows it.
	Stats func() bson.Doc
}

// counting converts plans for documents into plans that count them. Skip and limit become
// the count's.
func (x *Executor) counting(c *catalog.Collection, q *Query) func(plan.Node) plan.Node {
	skip, limit := q.Skip, q.Limit
	q.Skip, q.Limit = 0, 0
	q.Paths, q.NoExpress, q.FullyConsumed = []string{}, true, true
	return func(n plan.Node) plan.Node {
		fast := plan.MatchesAll(q.Filter) && q.Hint.IsMissing() && (c == nil || c.Virtual() == nil)
		if q.leavesOut && q.Hint.IsMissing() && c.Hiding() == nil {
			if rest, _ := match.WithoutOwned(q.Filter.Root()); rest == nil {
				q.ownedOnly = c.ReadsRanges()
				fast = q.ownedOnly
			}
		}
		if _, ok := n.(*plan.EOF); ok {
			return &plan.Count{Input: n, Skip: skip, Limit: limit}
		}
		if fast {
			return &plan.Count{Skip: skip, Limit: limit}
		}
		return plan.ForCount(n, skip, limit)
	}
}

// Counts count what queries do. They only grow.
type Counts struct {
	// Trials of plans against each other, the units of work and the microseconds
	// that they took.
	Trials, TrialWorks, TrialMicros atomic.Int64
	// Cache hits, misses, and cached plans that were given up.
	CacheHits, CacheMisses, Replanned atomic.Int64
	// Sorted rows, their bytes, and how often a sort spilled to disk.
	SortedRows, SortedBytes, SortSpills atomic.Int64
}

// sorted adds the sort counters of a plan's stages.
func (c *Counts) sorted(s stage.Stage) {
	if so, ok := s.(*sorter); ok {
		c.SortedRows.Add(so.rows.Stats.Rows)
		c.SortedBytes.Add(so.rows.Stats.Bytes)
		c.SortSpills.Add(so.rows.Stats.Spills)
	}
	for _, in := range s.Inputs() {
		c.sorted(in)
	}
}
