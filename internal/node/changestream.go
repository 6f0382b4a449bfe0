package node

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/changestream"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/schema"
)

// isChangeStream reports whether a pipeline begins with $changeStream.
func isChangeStream(list []bson.Value) bool {
	if len(list) == 0 || list[0].Type != bson.TypeDocument {
		return false
	}
	name, _ := list[0].Doc().First()
	return name == "$changeStream"
}

// changeStream is the source of a change stream: it reads the member's log from its
// position on. Between two batches it has nothing but that position.
type changeStream struct {
	n     *Node
	maker changestream.Maker
	// index is that of the entry that is read next, and i the number of its operation.
	// Events before from are not told.
	index uint64
	i     int
	from  uint64
	// behind is the event behind which the stream was resumed, until it was found in the
	// log; nil for none.
	behind *changestream.Token
	feed   *repl.Feed // nil while parked
	entry  *repl.LogEntry
	// invalid is the event behind which the stream is invalid, until it has said so.
	invalid *changestream.At
	ended   bool // it has said so
	// token is that of the last event, and mark the time up to which the log was read.
	token changestream.Token
	mark  uint64
	// merged says that a router merges the stream with those of other shards. Then behind may
	// be the event of another shard, and resumed says whether it was here, once that is known.
	merged  bool
	resumed bson.Value
	// skip is how many fragments of the next event were told before the stream was
	// resumed.
	skip     int
	follower *repl.Stream
}

// openChangeStream opens the source of a change stream on a namespace; merged says that a
// router merges it with those of other shards. Errors: those of changestream.ParseOptions and
// NewScope, 286.
func (n *Node) openChangeStream(arg bson.Doc, ns schema.Namespace, merged bool) (*changeStream, error) {
	o, err := changestream.ParseOptions(arg)
	if err != nil {
		return nil, err
	}
	scope := changestream.Scope{DB: ns.DB, Coll: ns.Coll}
	if !merged || ns != configShards {
		if scope, err = changestream.NewScope(ns, o); err != nil {
			return nil, err
		}
	}
	s := &changeStream{n: n, merged: merged, maker: changestream.Maker{Options: o, Scope: scope, Find: n.currentDocument}}
	if merged && o.FullDocument == changestream.Lookup {
		o.FullDocument = changestream.Off // the router knows where the document is
	}
	if err := s.place(); err != nil {
		return nil, err
	}
	if s.follower, err = n.Dispatcher.Member.Follow(s.mark); err != nil {
		return nil, err
	}
	return s, nil
}

// place finds where in the log the stream begins.
func (s *changeStream) place() (err error) {
	o, m := s.maker.Options, s.n.Dispatcher.Member
	t := o.Resume()
	switch {
	case t == nil && !o.HasStart:
		s.index, s.mark, err = m.FeedNow()
		s.from = s.mark + 1
		return err
	case t == nil:
		s.from = o.StartAt
		if s.mark = o.StartAt; s.mark > 0 {
			s.mark--
		}
	case t.Event:
		s.from, s.mark, s.behind, s.token = t.Time, t.Time, t, *t
	default:
		s.from, s.mark = t.Time+1, t.Time
	}
	if s.index, err = m.FeedFrom(max(s.from, 1)); errors.Is(err, repl.ErrHistoryLost) {
		return errHistoryLost
	}
	return err
}

// configShards is what a router watches on the config servers.
var configShards = schema.Namespace{DB: "config", Coll: "shards"}

var errHistoryLost = mongoerr.New(mongoerr.ChangeStreamHistoryLost,
	"Resume of change stream was not possible, as the resume point may no longer be in the oplog.")

var errUnlisted = mongoerr.New(mongoerr.ChangeStreamHistoryLost,
	"Documents have expired that were not listed one by one, as oplogListsExpired is off: the change stream cannot tell of them, nor go on.")

// currentDocument returns the current version of a document that an operation changed; nil
// if there is none, or its collection was dropped.
func (n *Node) currentDocument(ctx context.Context, op *catalog.Operation, key bson.Doc) (bson.Doc, error) {
	c := n.Catalog.LookupUUID(op.UUID)
	if c == nil {
		return nil, nil
	}
	q := &exec.Query{}
	opts := &match.Options{}
	if v := c.Options.Lookup("collation"); v.Type == bson.TypeDocument {
		collation, err := schema.ParseCollation(v.Doc())
		if err != nil {
			return nil, err
		}
		q.Collation, q.Collator, opts.Collator = collation.Spec, collation.Collator, collation.Collator
	}
	filter := new(bson.Builder).OpenDoc("_id").Value("$eq", key.Lookup("_id")).Close().Finish()
	var err error
	if q.Filter, err = match.Parse(filter, opts); err != nil {
		return nil, err
	}
	d, err := n.firstOf(ctx, c, q)
	if mongoerr.Is(err, mongoerr.QueryPlanKilled) && n.Catalog.LookupUUID(op.UUID) == nil {
		return nil, nil // it was dropped meanwhile
	}
	return d, err
}

// firstOf returns the first document of a query, nil if there is none.
func (n *Node) firstOf(ctx context.Context, c *catalog.Collection, q *exec.Query) (bson.Doc, error) {
	cur, err := n.Exec.Find(ctx, c, q)
	if err != nil {
		return nil, err
	}
	defer cur.Close()
	d, err := cur.Next(ctx)
	return d.Clone(), err
}

// Next implements pipeline.Iterator. Errors: 280 if the event behind which the stream was
// resumed is not in the log, 286.
func (s *changeStream) Next(ctx context.Context) (bson.Doc, error) {
	if s.ended {
		return nil, nil
	}
	for n := 0; ; n++ {
		if s.invalid != nil {
			d, t := s.maker.Invalidate(&s.token, *s.invalid)
			s.token, s.invalid, s.ended = t, nil, true
			return d, nil
		}
		if n%128 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if s.entry == nil {
			if more, err := s.load(); !more || err != nil {
				return nil, err
			}
		}
		d, err := s.next(ctx)
		if d != nil || err != nil {
			return d, err
		}
	}
}

// load reads the next entry.
func (s *changeStream) load() (more bool, err error) {
	if s.feed == nil {
		if s.maker.ImagesSince, err = s.n.imagesSince(s.maker.Options); err != nil {
			return false, err
		}
		s.feed = s.n.Dispatcher.Member.OpenFeed(s.index)
	}
	if s.entry, err = s.feed.Next(); s.entry == nil {
		if errors.Is(err, repl.ErrHistoryLost) {
			s.n.Dispatcher.Member.LostStream()
			err = errHistoryLost
		}
		return false, err
	}
	s.index = s.entry.Index
	return true, nil
}

// next returns the next event of the entry, nil if the event is not told. At the end of the
// entry it goes on to the next one.
func (s *changeStream) next(ctx context.Context) (bson.Doc, error) {
	if s.i == 0 && s.entry.Time >= s.from {
		switch first := s.entry.At(0); {
		case s.entry.Transaction():
			if s.behind != nil && s.behind.Time == s.entry.Time {
				s.i = int(s.behind.Op)
			}
		case s.from > first && s.entry.Changes() > 0:
			s.i = int(s.from - first)
		}
	}
	if s.i >= s.entry.Changes() || s.entry.Time < s.from {
		if s.merged && s.behind != nil && s.entry.Time >= s.behind.Time {
			s.elsewhere()
		}
		s.mark = max(s.mark, s.entry.Time)
		s.entry, s.index, s.i = nil, s.index+1, 0
		return nil, nil
	}
	c := s.entry.Change(s.i)
	at := changestream.At{Operation: c.Operation, Of: c.Of, Time: c.Time, Op: c.Number}
	if s.entry.Transaction() {
		at.Session = &s.entry.Session
	}
	s.i++
	op, of := at.Operation, at.Of
	if op == nil {
		return nil, nil
	}
	if s.maker.Unlisted(op) {
		s.n.Dispatcher.Member.LostStream()
		return nil, errUnlisted
	}
	kind := s.maker.Kind(op)
	if s.behind != nil {
		if passed, err := s.passed(kind, at); passed || err != nil {
			return nil, err
		}
	}
	if kind == "" || s.maker.Wants != nil && !s.maker.Wants(kind, op, of) && !s.maker.Invalidates(kind) {
		return nil, nil
	}
	t := s.maker.Token(kind, at)
	d, err := s.maker.Event(ctx, kind, &t, at)
	if err != nil {
		return nil, err
	}
	s.tells(kind, t, at)
	return d, nil
}

// tells notes that the event of an operation was told.
func (s *changeStream) tells(kind string, t changestream.Token, at changestream.At) {
	s.token, s.mark = t, max(s.mark, t.Time)
	if s.maker.Invalidates(kind) {
		s.invalid = &at
	}
}

// passed reports whether an operation is one behind which the stream was resumed, so that
// its event is not told again. That must be the first one that the stream tells of, or of a
// stream that is merged, lies at the token's place if it is here. Error 280 if it is not. What
// the stream does not tell of says nothing, as on mongod, where a stream fails once it would
// go on.
func (s *changeStream) passed(kind string, at changestream.At) (bool, error) {
	b := s.behind
	if kind == "" {
		return true, nil
	}
	t := s.maker.Token(kind, at)
	if !t.Same(b) {
		switch {
		case !s.merged:
			return false, changestream.NotFound(b)
		case t.Before(b):
			return true, nil
		}
		s.elsewhere()
		return false, nil
	}
	s.behind, s.resumed = nil, bson.Bool(true)
	switch {
	case b.FromInvalidate:
	case b.Fragment >= 0:
		s.skip = b.Fragment + 1 // the event is told again, from the next fragment on
		return false, nil
	default:
		s.tells(kind, t, at)
	}
	return true, nil
}

// elsewhere notes that the event behind which a merged stream was resumed is not here.
func (s *changeStream) elsewhere() { s.behind, s.resumed = nil, bson.Bool(false) }

// park releases the log.
func (s *changeStream) park() error {
	s.follower.Read(s.mark)
	s.entry = nil
	if s.feed == nil {
		return nil
	}
	err := s.feed.Close()
	s.feed = nil
	return err
}

// Close implements pipeline.Iterator.
func (s *changeStream) Close() {
	_ = s.park() // what was read is read again, or not needed
	s.follower.Close()
}

// streamCursor is the cursor of a change stream: a pipeline over the stream.
type streamCursor struct {
	out      *exec.Aggregation
	s        *changeStream
	arrivals <-chan struct{}
	// until is the time up to which a router waits to know, since is what it knew when it
	// asked, and raised has a value if until was raised meanwhile.
	until  atomic.Uint64
	since  uint64
	raised chan struct{}
	// told is the token of the last event that was returned, before that of the one
	// before; full says that the batch ended with it.
	told, before []byte
	full         bool
	// news says that the batch has told of something, and rest until when the stream is not
	// read again.
	news bool
	rest time.Time
	// splits says that large events are split; fragments are those of the last event that
	// were not returned yet.
	splits    bool
	fragments []changestream.Fragment
}

// Next returns the next event that passes the pipeline. Error 280 where that has changed
// the event's _id.
func (c *streamCursor) Next(ctx context.Context) (bson.Doc, error) {
	if len(c.fragments) > 0 {
		return c.fragment(), nil
	}
	d, err := c.out.Next(ctx)
	if err != nil {
		return nil, err
	}
	if c.full = d != nil; d == nil {
		return nil, nil
	}
	want := c.s.maker.TokenDoc()
	if err := changestream.CheckToken(d, want); err != nil {
		return nil, err
	}
	if c.splits && len(d) > bson.MaxDocumentSize {
		if err := c.split(d); err != nil {
			return nil, err
		}
		return c.Next(ctx) // the next event, where all fragments of this one were told
	}
	if c.s.merged { // the router splits, if these events are not split here
		c.s.skip = 0
	}
	if c.s.skip > 0 {
		return nil, changestream.NotFound(&c.s.token)
	}
	c.tells(want)
	return d, nil
}

// tells notes the token of what is returned.
func (c *streamCursor) tells(token bson.Doc) {
	c.before, c.told, c.news = c.told, append(c.before[:0], token...), true
}

// fragment returns the next part of the event.
func (c *streamCursor) fragment() bson.Doc {
	f := c.fragments[0]
	c.fragments = c.fragments[1:]
	c.tells(f.Token)
	return f.Doc
}

// split makes fragments of an event.
func (c *streamCursor) split(d bson.Doc) (err error) {
	c.fragments, err = changestream.Split(d, c.s.token, c.s.skip)
	c.s.skip = 0
	return err
}

// Close implements command.Cursor.
func (c *streamCursor) Close() { c.out.Close() }

// Invalidated implements command.Invalidated.
func (c *streamCursor) Invalidated() bool { return c.s.ended && len(c.fragments) == 0 }

// Rest implements command.Resting. A router, which merges the stream with others, waits for
// each of them.
func (c *streamCursor) Rest() time.Time { return c.rest }

// Park implements command.Parked.
func (c *streamCursor) Park() error {
	if c.news && !c.full && !c.s.merged {
		c.rest = c.s.follower.Answered(time.Now())
	}
	c.news = false
	return errors.Join(c.s.park(), c.out.Park())
}

// Unpark implements command.Parked.
func (c *streamCursor) Unpark(ctx context.Context) error {
	c.arrivals = c.s.n.Dispatcher.Member.Arrivals()
	return c.out.Unpark(ctx)
}

// Await implements command.Awaiter.
func (c *streamCursor) Await(ctx context.Context) {
	if !invariant.Check(c.arrivals != nil, "node: Await comes after Unpark") {
		return
	}
	select {
	case <-c.arrivals:
	case <-c.raised:
	case <-ctx.Done():
	}
}

// Begin implements command.Paced.
func (c *streamCursor) Begin(until uint64) {
	if c.since = c.s.mark; c.full && c.since > 0 {
		c.since-- // the last reply named an event of that time, and not all of them
	}
	c.Until(until)
}

// Until implements command.Paced.
func (c *streamCursor) Until(t uint64) {
	for was := c.until.Load(); t > was; was = c.until.Load() {
		if c.until.CompareAndSwap(was, t) {
			c.s.n.Dispatcher.Member.Advance(repl.Timestamp(t))
			select {
			case c.raised <- struct{}{}:
			default:
			}
			return
		}
	}
}

// Passed implements command.Paced.
func (c *streamCursor) Passed() bool {
	until := c.until.Load()
	return until > c.since && c.s.mark >= until
}

// AppendToken implements command.Resumable: where the batch is full, that is its last
// event, else how far the log was read.
func (c *streamCursor) AppendToken(b *bson.Builder, held bool) {
	if !c.s.resumed.IsMissing() && c.s.merged {
		b.Value("resumed", c.s.resumed)
	}
	token := c.told
	if held {
		token = c.before
	}
	if c.full && len(token) > 0 {
		b.Doc("postBatchResumeToken", token)
		return
	}
	mark := changestream.Mark(c.s.mark)
	if c.s.ended || c.s.token.Event && c.s.token.Time >= c.s.mark {
		mark = c.s.token
	}
	mark.Doc(b, "postBatchResumeToken")
}

// watch runs a pipeline that begins with $changeStream.
func (n *Node) watch(ctx context.Context, op *command.Op, a *aggregation) (*streamCursor, error) {
	out, err := n.Exec.Aggregate(ctx, nil, a.Query, a.pipeline, a.run)
	if err != nil {
		return nil, err
	}
	op.Stats.IsQuery = true
	c := &streamCursor{out: out, s: a.run.World.(*world).stream, splits: a.pipeline.SplitsEvents(), raised: make(chan struct{}, 1)}
	c.s.maker.Wants = wants(a.pipeline.Stages[1:])
	return c, nil
}

// pushed are the fields of an event that a filter can read before the event is made.
var pushed = []string{"documentKey._id", "ns", "ns.coll", "ns.db", "operationType"}

// wants returns what the filters that directly follow $changeStream say of operations: false
// for those whose events they reject by the fields in pushed. nil if they say nothing.
func wants(stages []pipeline.Stage) func(kind string, op *catalog.Operation, of int) bool {
	var nodes []match.Node
	for _, s := range stages {
		m, ok := s.(*pipeline.Match)
		if !ok {
			break
		}
		for _, n := range match.Conjuncts(m.Filter.Root()) {
			d := match.DependsOn(n)
			if !d.Whole && !d.Random && len(d.Vars) == 0 && len(d.Paths) > 0 &&
				!slices.ContainsFunc(d.Paths, func(p string) bool { return !slices.Contains(pushed, p) }) {
				nodes = append(nodes, n)
			}
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	filter := match.FilterOf(match.AndOf(nodes...))
	var b bson.Builder
	return func(kind string, op *catalog.Operation, of int) bool {
		b.Reset(nil).String("operationType", kind).OpenDoc("ns").String("db", op.Namespace.DB)
		if op.Namespace.Coll != "" {
			b.String("coll", op.Namespace.Coll)
		}
		b.Close()
		switch {
		case op.Kind == catalog.OpExpired:
			b.OpenDoc("documentKey").Value("_id", op.IDs[of]).Close()
		case op.Kind != catalog.OpCommand:
			b.OpenDoc("documentKey").Value("_id", op.Doc.Lookup("_id")).Close()
		}
		ok, err := filter.Match(b.Finish())
		return ok || err != nil // the filter fails again on the event
	}
}

// imagesSince returns the wall time, in milliseconds since 1970, before which pre- and
// post-images have expired (cluster parameter changeStreamOptions). It is read anew for
// each batch, as a secondary's changes with what the primary writes.
func (n *Node) imagesSince(o *changestream.Options) (int64, error) {
	if o.FullDocument < changestream.WhenAvailable && o.Before == changestream.Off {
		return 0, nil
	}
	d, err := n.Catalog.Kept(ParametersNamespace, bson.String("changeStreamOptions"))
	if err != nil || d == nil {
		return 0, err
	}
	images := d.Lookup("preAndPostImages")
	if images.Type != bson.TypeDocument {
		return 0, nil
	}
	seconds := images.Doc().Lookup("expireAfterSeconds")
	if !seconds.IsNumber() {
		return 0, nil
	}
	return n.Catalog.Clock.ExpiryTime() - min(bson.ClampToInt64(seconds), math.MaxInt64/2000)*1000, nil
}

// appendChangeStreams writes serverStatus().metrics.changeStreams.
func (n *Node) appendChangeStreams(b *bson.Builder) {
	if m := n.Dispatcher.Member; m != nil {
		m.AppendStreams(b)
	}
}

// changeStreamOf opens the source of a pipeline.
func (w *world) changeStreamOf(arg bson.Doc) (pipeline.Iterator, error) {
	s, err := w.n.openChangeStream(arg, w.ns, w.op.Args.Value("needsMerge").Truthy())
	if err != nil {
		return nil, err
	}
	w.stream = s
	return s, nil
}

// checkWatchable refuses a change stream on what is no collection, and with a read concern
// that it cannot have. Errors: 166, 72.
func checkWatchable(op *command.Op, c *catalog.Collection, ns schema.Namespace) error {
	if rc := op.Generic.ReadConcern; rc.Type == bson.TypeDocument {
		if level := rc.Doc().Lookup("level"); level.Type == bson.TypeString && level.Str() != "majority" {
			return mongoerr.New(mongoerr.InvalidOptions, "$changeStream cannot run with a readConcern other than 'majority'. Current readConcern: %s", level.Str())
		}
	}
	switch {
	case c == nil || strings.HasPrefix(ns.Coll, "system."):
		return nil
	case c.IsTimeseries():
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a timeseries collection, and $changeStream is not supported on it", ns)
	case c.IsView():
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "$changeStream is not supported on views, as %s is", ns)
	}
	return nil
}
