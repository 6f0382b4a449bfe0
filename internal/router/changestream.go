package router

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/changestream"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// streamWait is how long a shard waits for events in one getMore.
	streamWait = time.Second
	// streamAnswer bounds the time for an answer beyond that: who does not answer is asked
	// anew, on another member if there is one.
	streamAnswer = 10 * time.Second
	// streamPatience is how long a shard may fail until the stream does.
	streamPatience = 30 * time.Second
	// Bounds of the pause between two attempts.
	streamPause, maxStreamPause = 20 * time.Millisecond, time.Second
)

// stream merges the change streams of all shards by their tokens
// (docs/rfcs/0026-change-streams.md, "In a cluster").
type stream struct {
	r    *Router
	open streamOpening
	life context.Context
	end  context.CancelFunc
	// running are the calls that are under way, at most one of each source, and those that
	// tell shards of a later time.
	running sync.WaitGroup
	// from is the time from which on it tells of events. It may be still to come.
	from uint64
	// arrived has a value if a call has ended since Await looked.
	arrived chan struct{}

	mu      sync.Mutex // guards the sources
	sources []*source
	failure error
	// until is a time up to which the reader waits to know of all events, and untilKey what a
	// source then promises at least; 0 and "" for none.
	until    uint64
	untilKey string

	// What follows is of the operation that reads the stream. last is the token of the last
	// event that was told, or the time up to which all was; ended says that it was told that
	// the stream is invalid.
	last  bson.Doc
	ended bool
	// begin is the key of the token behind which it was resumed; "" for none. behind is the event behind which the stream was resumed, until a shard has it; nil for
	// none.
	begin  string
	behind *changestream.Token
}

// streamOpening is how the stream is opened on a shard.
type streamOpening struct {
	db      string
	coll    string       // "" for none
	head    bson.Doc     // the command, without its pipeline
	options bson.Doc     // of $changeStream, without a position
	stages  []bson.Value // the ones behind it
	read    client.ReadPreference
}

// source is the stream of one shard, or of config.shards.
type source struct {
	s     *stream
	shard string // "" for config.shards

	// Of the call that is under way, or of who holds stream.mu if none is.
	cursor   int64 // 0 while there is none
	member   string
	db, coll string
	begin    bson.Doc // what says where the stream begins, until it was opened
	own      bool     // that is the source's own token
	token    bson.Doc // postBatchResumeToken of the last reply
	inDoubt  bool     // whether the event is here behind which the stream was resumed
	found    bool     // it is
	queue    []bson.Doc
	promise  string // all events whose tokens are not above it are in the queue, or were
	calling  bool
	until    uint64 // the time that the call was told
	gone     bool   // the shard is none any more, or its stream is at its end
}

// tokenKey is a token as a string that sorts.
func tokenKey(token bson.Doc) string { return token.Lookup("_data").Str() }

// eventKey is that of the token of an event.
func eventKey(d bson.Doc) string {
	if id := d.Lookup("_id"); id.Type == bson.TypeDocument {
		if v := id.Doc().Lookup("_data"); v.Type == bson.TypeString {
			return v.Str()
		}
	}
	return ""
}

// timeDigits are the digits of a token up to the end of its time.
const timeDigits = 18

// promised is the key of the last event that a token says was told: a mark says it of all
// events of its time.
func promised(token bson.Doc) (string, error) {
	t, err := changestream.ParseToken(token)
	if err != nil || t.Event {
		return tokenKey(token), err
	}
	return tokenKey(token)[:timeDigits] + "~", nil // behind all digits
}

// timeOf is the time of a token.
func timeOf(token bson.Doc) uint64 {
	if t, err := changestream.ParseToken(token); err == nil {
		return t.Time
	}
	return 0
}

// markOf is the mark of a time.
func markOf(t uint64) bson.Doc {
	m := changestream.Mark(t)
	return m.AppendDoc(nil)
}

// watch answers an aggregate that begins with $changeStream.
func (a *aggregation) watch(ctx context.Context) error {
	_, arg := a.list[0].Doc().First()
	rt := &route{ns: a.shown, db: a.db}
	parsed, err := a.parse(ctx, rt, a.list, &pipeline.Options{Collectionless: a.coll == "", ChangeStreams: true})
	if err != nil && !needsJavaScript(err) {
		return err
	}
	o, perr := changestream.ParseOptions(document(arg))
	if perr != nil {
		return perr
	}
	if _, err := changestream.NewScope(schema.Namespace{DB: a.db, Coll: a.coll}, o); err != nil {
		return err
	}
	onShards, here := a.list[1:], 0
	if o.FullDocument == changestream.Lookup {
		if err != nil {
			return err
		}
		here = 1 + filtersBefore(parsed.Stages[1:])
		onShards = a.list[1:here]
	}
	s, err := a.r.newStream(ctx, a, document(arg), o, onShards)
	if err != nil {
		return err
	}
	c := &streamCursor{s: s}
	if here > 0 {
		if err := c.openLookup(a, parsed, o, here); err != nil {
			c.account.Close()
			s.Close()
			return err
		}
	}
	batch := document(a.op.Body.Lookup("cursor")).Lookup("batchSize")
	return command.WriteCursorReply(ctx, a.op, command.CursorSpec{
		NS: a.shown, Cursor: c, BatchSize: sizeOf(batch, command.DefaultBatch), Tailable: true, AwaitData: true, Doing: "PlanExecutor error during aggregation",
	})
}

// newStream opens a stream on all shards.
func (r *Router) newStream(ctx context.Context, a *aggregation, arg bson.Doc, o *changestream.Options, stages []bson.Value) (*stream, error) {
	read, err := readPreference(a.op)
	if err != nil {
		return nil, err
	}
	s := &stream{r: r, arrived: make(chan struct{}, 1)}
	s.life, s.end = context.WithCancel(context.Background())
	b := new(bson.Builder)
	if !a.collation.IsEmpty() {
		b.Doc("collation", a.collation)
	}
	appendRest(b, a.op.Body, "pipeline", "collation", "explain", "cursor", "lsid", "txnNumber", "maxTimeMS", "writeConcern", "apiVersion", "apiStrict", "apiDeprecationErrors", "needsMerge", "fromMongos")
	s.open = streamOpening{db: a.db, coll: a.coll, head: b.Bool("needsMerge", true).Bool("fromMongos", true).Finish(), options: withoutFields(arg, "resumeAfter", "startAfter", "startAtOperationTime").Clone(), read: read}
	for _, v := range stages {
		s.open.stages = append(s.open.stages, v.Clone())
	}
	begin, err := s.position(ctx, a.op, o)
	if err == nil {
		err = s.openAll(ctx, a.op, begin)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	a.op.OperationTime.Observe(r.clock.Now())
	return s, nil
}

// position finds out where the stream begins, and returns what tells shards. Where the client says
// nothing, that is behind the highest clock of all.
func (s *stream) position(ctx context.Context, op *command.Op, o *changestream.Options) (begin bson.Doc, err error) {
	b := new(bson.Builder)
	t := o.Resume()
	switch {
	case o.HasStart:
		s.last, s.from = markOf(max(o.StartAt, 1)-1), o.StartAt
		return b.Timestamp("startAtOperationTime", o.StartAt).Finish(), nil
	case t != nil && t.Event:
		s.behind, s.last = t, t.AppendDoc(nil)
		s.begin, s.from = tokenKey(s.last), t.Time
		return b.Doc("startAfter", s.last).Finish(), nil
	case t != nil:
		s.last, s.from = t.AppendDoc(nil), t.Time+1
		return b.Doc("startAfter", s.last).Finish(), nil
	}
	if err := s.r.askTimes(ctx, op); err != nil {
		return nil, err
	}
	now := max(s.r.clock.Now(), op.ReadConcern.AfterClusterTime)
	s.last, s.from = markOf(now), now+1
	return b.Doc("startAfter", s.last).Finish(), nil
}

var pingCall = new(bson.Builder).Int32("ping", 1).Finish()

// openAll opens the stream on config.shards and on all shards but those that were added later
// than the stream begins: these follow when their insert is reached. Where the stream begins at a
// time that is still to come, it hears of shards that are added until then, too.
func (s *stream) openAll(ctx context.Context, op *command.Op, begin bson.Doc) error {
	now := s.r.clock.Now()
	if s.from > now {
		if err := s.r.askTimes(ctx, op); err != nil {
			return err
		}
		now = s.r.clock.Now()
	}
	config := &source{s: s, db: "config", coll: "shards", begin: new(bson.Builder).Timestamp("startAtOperationTime", min(s.from, now)).Finish()}
	s.sources = []*source{config}
	for {
		reply, err := config.call(ctx, now)
		if err != nil {
			return err
		}
		if err := config.take(reply); err != nil {
			return err
		}
		if timeOf(config.token) >= now {
			break
		}
	}
	later := map[string]bool{}
	for _, d := range config.queue {
		name, added := shardEvent(d)
		later[name] = true
		if !added { // it may have had the event behind which the stream is resumed
			s.behind = nil
		}
	}
	names, err := s.r.shards.names(ctx)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return later[n] })
	all, err := each(names, func(name string) (*source, error) {
		src := &source{s: s, shard: name, db: s.open.db, coll: s.open.coll, begin: begin, inDoubt: true}
		reply, err := src.call(ctx, 0)
		if err != nil {
			return nil, err
		}
		return src, src.take(reply)
	})
	for _, src := range all {
		if src != nil {
			s.sources = append(s.sources, src)
		}
	}
	return err
}

// shardEvent returns the name of the shard that an event of config.shards is about, and
// whether it was added.
func shardEvent(d bson.Doc) (name string, added bool) {
	if v := document(d.Lookup("documentKey")).Lookup("_id"); v.Type == bson.TypeString {
		name = v.Str()
	}
	return name, d.Lookup("operationType").Str() == "insert"
}

// set is the client of the source's servers.
func (src *source) set(ctx context.Context) (*client.Set, error) {
	if src.shard == "" {
		return src.s.r.config, nil
	}
	return src.s.r.shards.shard(ctx, src.shard)
}

// body is the aggregate that opens the source's stream.
func (src *source) body() bson.Doc {
	b := new(bson.Builder)
	if src.coll == "" {
		b.Int32("aggregate", 1)
	} else {
		b.String("aggregate", src.coll)
	}
	begin := src.begin
	if src.token != nil {
		begin = new(bson.Builder).Doc("startAfter", src.token).Finish()
	}
	b.OpenArray("pipeline")
	if src.shard == "" {
		b.OpenDoc("0").Doc("$changeStream", begin).Close()
		b.OpenDoc("1").OpenDoc("$match").OpenDoc("operationType").Strings("$in", "insert", "delete").Close().Close().Close()
	} else {
		b.OpenDoc("0").OpenDoc("$changeStream").Fields(src.s.open.options).Fields(begin).Close().Close()
		for i, v := range src.s.open.stages {
			b.Value(bson.Index(i+1), v)
		}
	}
	b.Close().OpenDoc("cursor").Int32("batchSize", moreBatch).Close()
	if src.shard == "" {
		return b.Bool("needsMerge", true).Finish()
	}
	return b.Fields(src.s.open.head).Finish()
}

// call asks for the next batch, once: by a cursor, which is opened if there is none. until is
// the time up to which the stream waits to know, 0 for none.
func (src *source) call(ctx context.Context, until uint64) (client.Answer, error) {
	set, err := src.set(ctx)
	if err != nil {
		return client.Answer{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, streamWait+streamAnswer, errNoAnswer)
	defer cancel()
	c := client.Call{DB: src.db, Idempotent: true}
	if src.cursor == 0 {
		c.Body, c.Read = src.body(), src.s.open.read
		if src.shard == "" {
			c.Read = client.ReadPreference{}
		}
	} else {
		coll := src.coll
		if coll == "" {
			coll = "$cmd.aggregate"
		}
		b := new(bson.Builder).Int64("getMore", src.cursor).String("collection", coll).Int32("batchSize", moreBatch).Int64("maxTimeMS", streamWait.Milliseconds())
		if until > 0 {
			b.Timestamp("until", until)
		}
		c.Body, c.Member = b.Finish(), src.member
	}
	return set.Run(ctx, c)
}

var errNoAnswer = mongoerr.New(mongoerr.NetworkTimeout, "a shard does not answer")

// take takes over a reply. Errors: 280 where the source was opened again behind an event of its
// own that is not there.
func (src *source) take(a client.Answer) error {
	cursor, name := document(a.Reply.Lookup("cursor")), "nextBatch"
	if src.cursor == 0 {
		name = "firstBatch"
	}
	v := cursor.Lookup("postBatchResumeToken")
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.InternalError, "shard %s answered without a token: %s", src.shard, cursor)
	}
	token := v.Doc()
	if src.shard == "" {
		token = markOf(timeOf(token)) // clients resume behind it, and shards do not have these events
	}
	promise, err := promised(token)
	if err != nil {
		return err
	}
	if v := cursor.Lookup("resumed"); v.Type == bson.TypeBool {
		if src.own && !v.Bool() {
			t, err := changestream.ParseToken(src.token)
			if err != nil {
				return err
			}
			return changestream.NotFound(t)
		}
		if !src.own {
			src.inDoubt, src.found = false, v.Bool()
		}
	}
	src.queue = append(src.queue, documents(cursor.Lookup(name))...)
	src.cursor, src.member = bson.ClampToInt64(cursor.Lookup("id")), a.Member
	src.token, src.promise = token, max(src.promise, promise)
	src.gone = src.gone || src.cursor == 0
	return nil
}

// mayReopen reports whether the stream of a shard can go on behind an error by being opened
// again.
func mayReopen(err error) bool {
	var e *mongoerr.Error
	return !errors.As(err, &e) || command.MayRetry(e.Code) || reopens[e.Code]
}

var reopens = map[mongoerr.Code]bool{
	mongoerr.CursorNotFound: true, mongoerr.CursorKilled: true, mongoerr.CursorInUse: true, mongoerr.FailedToSatisfyReadPreference: true,
	mongoerr.RetryChangeStream: true, mongoerr.ShardNotFound: true,
}

// fetch is call until there is an answer: where it fails, the stream is opened anew behind the
// token of the last one.
// removed says that the shard is none any more.
func (src *source) fetch(until uint64) (a client.Answer, removed bool, err error) {
	ctx, began := src.s.life, time.Now()
	for pause := streamPause; ; pause = min(2*pause, maxStreamPause) {
		a, err := src.call(ctx, until)
		if err == nil || ctx.Err() != nil || !mayReopen(err) {
			return a, false, err
		}
		if src.shard != "" {
			if names, err := src.s.r.shards.names(ctx); err == nil && !slices.Contains(names, src.shard) {
				return a, true, nil
			}
		}
		if time.Since(began) > streamPatience {
			return a, false, err
		}
		src.forget()
		if client.Sleep(ctx, pause) != nil {
			return a, false, context.Cause(ctx)
		}
	}
}

// forget notes that the cursor is gone.
func (src *source) forget() {
	src.s.mu.Lock()
	defer src.s.mu.Unlock()
	src.cursor = 0
	src.own = src.token != nil && tokenKey(src.token) != src.s.begin
}

// startLocked asks a source for more, unless that is under way.
func (s *stream) startLocked(src *source, until uint64) {
	if src.calling || src.gone || s.life.Err() != nil {
		return
	}
	src.calling, src.until = true, until
	s.running.Go(func() {
		a, removed, err := src.fetch(until)
		s.mu.Lock()
		src.calling = false
		switch {
		case removed:
			src.gone, src.promise = true, "~"
		case err == nil:
			err = src.take(a)
		}
		if err != nil && s.failure == nil {
			s.failure = err
		}
		s.mu.Unlock()
		select {
		case s.arrived <- struct{}{}:
		default:
		}
	})
}

// pump asks all sources that have nothing, and tells those that are behind the least head how
// far it waits.
func (s *stream) pump() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, src := range s.sources {
		switch {
		case len(src.queue) > 0 || src.gone:
		case src.calling:
			s.raiseLocked(src, s.untilLocked(src))
		default:
			s.startLocked(src, s.untilLocked(src))
		}
	}
}

// untilLocked is the time up to which the least head waits to know of a source; 0 for none.
func (s *stream) untilLocked(src *source) uint64 {
	head, until := s.headLocked(), uint64(0)
	if src.promise < s.untilKey {
		until = s.until
	}
	if head == nil || src.promise >= eventKey(head.queue[0]) {
		return until
	}
	return max(until, timeOf(document(head.queue[0].Lookup("_id"))))
}

// wait has the stream be read until all events up to a time are known.
func (s *stream) wait(until uint64) error {
	key, err := promised(markOf(until))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until, s.untilKey = until, key
	return nil
}

// raiseLocked tells a source, whose call is under way, of a later time.
func (s *stream) raiseLocked(src *source, until uint64) {
	if until <= src.until || src.cursor == 0 {
		return
	}
	src.until = until
	body := new(bson.Builder).Int32("_shardsvrAdvanceStream", 1).Int64("cursor", src.cursor).Timestamp("until", until).Finish()
	member := src.member
	s.running.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, streamWait)
		defer cancel()
		if set, err := src.set(ctx); err == nil {
			_, _ = set.Run(ctx, client.Call{DB: "admin", Body: body, Member: member}) // else the getMore ends after streamWait
		}
	})
}

// headLocked returns the source with the least event; nil if none has one.
func (s *stream) headLocked() (head *source) {
	for _, src := range s.sources {
		if len(src.queue) > 0 && (head == nil || eventKey(src.queue[0]) < eventKey(head.queue[0])) {
			head = src
		}
	}
	return head
}

// leastLocked returns the source whose promise is the least of those that have no event; nil
// if all have one.
func (s *stream) leastLocked() (least *source) {
	for _, src := range s.sources {
		if len(src.queue) == 0 && (least == nil || src.promise < least.promise) {
			least = src
		}
	}
	return least
}

// Next implements pipeline.Iterator: the next event, nil if none can be told yet. Errors:
// those of shards, 280 if none of them has the event behind which the stream was resumed.
func (s *stream) Next(context.Context) (bson.Doc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended {
		if s.failure != nil {
			return nil, s.failure
		}
		if err := s.checkResumedLocked(); err != nil {
			return nil, err
		}
		head, least := s.headLocked(), s.leastLocked()
		if head == nil || least != nil && least.promise < eventKey(head.queue[0]) {
			return nil, nil
		}
		d := head.queue[0]
		if head.queue = head.queue[1:]; len(head.queue) == 0 {
			head.queue = nil
			s.startLocked(head, s.untilLocked(head))
		}
		token := document(d.Lookup("_id"))
		if head.shard == "" {
			s.topologyLocked(d, timeOf(token))
			continue
		}
		s.last = token
		if d.Lookup("operationType").Type == bson.TypeString && d.Lookup("operationType").Str() == "invalidate" {
			s.ended = true
		}
		return d, nil
	}
	return nil, nil
}

// checkResumedLocked checks, once all shards have said so, that one of them has the event
// behind which the stream was resumed.
func (s *stream) checkResumedLocked() error {
	if s.behind == nil {
		return nil
	}
	doubt := false
	for _, src := range s.sources {
		if src.found {
			s.behind = nil
			return nil
		}
		doubt = doubt || src.inDoubt
	}
	if doubt {
		return nil
	}
	return changestream.NotFound(s.behind)
}

// topologyLocked follows a shard that was added or removed at a time.
func (s *stream) topologyLocked(d bson.Doc, at uint64) {
	name, added := shardEvent(d)
	i := slices.IndexFunc(s.sources, func(src *source) bool { return src.shard == name })
	switch {
	case added && i < 0:
		if at+1 < s.from {
			at = s.from - 1
		}
		mark := markOf(at)
		promise, _ := promised(mark)
		src := &source{s: s, shard: name, db: s.open.db, coll: s.open.coll, promise: promise, begin: new(bson.Builder).Doc("startAfter", mark).Finish()}
		s.sources = append(s.sources, src)
		s.startLocked(src, 0)
	case !added && i > 0:
		src := s.sources[i]
		s.sources = slices.Delete(s.sources, i, i+1)
		src.gone = true
		s.killLocked(src)
	}
}

// Await implements command.Awaiter.
func (s *stream) Await(ctx context.Context) {
	s.pump()
	select {
	case <-s.arrived:
	case <-ctx.Done():
	}
}

// killLocked closes a source's cursor, which also ends its getMore.
func (s *stream) killLocked(src *source) {
	if src.cursor == 0 {
		return
	}
	m := &remote{router: s.r, shard: src.shard, member: src.member, id: src.cursor, db: src.db, coll: src.coll}
	if m.shard == "" {
		m.shard = configShard
	}
	if m.coll == "" {
		m.coll = "$cmd.aggregate"
	}
	s.r.streams.Go(func() { closeAll([]*remote{m}) })
}

// Close implements pipeline.Iterator. The cursors on shards are closed behind it.
func (s *stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return
	}
	s.end()
	s.r.streams.Go(func() {
		s.running.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, src := range s.sources {
			if !src.gone {
				s.killLocked(src)
			}
		}
	})
}

// mark returns the token up to which everything was told.
func (s *stream) mark() bson.Doc {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return s.last
	}
	head, least := s.headLocked(), s.leastLocked()
	if least != nil && least.token != nil && (head == nil || least.promise < eventKey(head.queue[0])) && tokenKey(least.token) > tokenKey(s.last) {
		s.last = least.token
	}
	return s.last
}

// streamCursor is the client's cursor over the merged stream.
type streamCursor struct {
	s *stream
	// out is what is behind the stream in the router; nil for nothing. splits says that large
	// events are split here; fragments are those of the last event that were not returned yet,
	// skip how many of the first one were returned before the stream was resumed.
	out       pipeline.Iterator
	account   memory.Account
	splits    bool
	fragments []changestream.Fragment
	skip      int
	// told is the token of the last event that was returned, before that of the one before;
	// full says that the batch ended with it.
	told, before bson.Doc
	full         bool
}

// Next implements command.Cursor.
func (c *streamCursor) Next(ctx context.Context) (d bson.Doc, err error) {
	if len(c.fragments) > 0 {
		return c.fragment(), nil
	}
	if c.out == nil {
		d, err = c.s.Next(ctx)
	} else if d, err = c.out.Next(ctx); err == nil && d != nil {
		err = changestream.CheckToken(d, c.s.last)
	}
	if err != nil {
		return nil, err
	}
	if c.full = d != nil; d == nil {
		return nil, nil
	}
	if c.splits && len(d) > bson.MaxDocumentSize {
		t, err := changestream.ParseToken(c.s.last)
		if err != nil {
			return nil, err
		}
		if c.fragments, err = changestream.Split(d, *t, c.skip); err != nil {
			return nil, err
		}
		c.skip = 0
		return c.Next(ctx) // the next event, where all fragments of this one were told
	}
	if len(d) > bson.MaxInternalSize {
		return nil, bson.SizeError(len(d), d)
	}
	if c.skip > 0 { // the event is not large any more
		t, err := changestream.ParseToken(c.s.last)
		if err != nil {
			return nil, err
		}
		return nil, changestream.NotFound(t)
	}
	c.before, c.told = c.told, c.s.last
	return d, nil
}

// fragment returns the next part of the event.
func (c *streamCursor) fragment() bson.Doc {
	f := c.fragments[0]
	c.fragments = c.fragments[1:]
	c.before, c.told, c.full = c.told, f.Token, true
	return f.Doc
}

// Await implements command.Awaiter.
func (c *streamCursor) Await(ctx context.Context) { c.s.Await(ctx) }

// Close implements command.Cursor.
func (c *streamCursor) Close() {
	if c.out != nil {
		c.out.Close()
		c.account.Close()
	}
	c.s.Close()
}

// Invalidated implements command.Invalidated.
func (c *streamCursor) Invalidated() bool { return c.s.ended && len(c.fragments) == 0 }

// AppendToken implements command.Resumable.
func (c *streamCursor) AppendToken(b *bson.Builder, held bool) {
	token := c.told
	if held {
		token = c.before
	}
	if !c.full || token == nil {
		// The token of a fragment is behind that of its event.
		if token = c.s.mark(); c.told != nil && tokenKey(c.told) > tokenKey(token) {
			token = c.told
		}
	}
	b.Doc("postBatchResumeToken", token)
}
