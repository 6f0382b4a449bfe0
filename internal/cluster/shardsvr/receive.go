package shardsvr

import (
	"context"
	"errors"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// progress is the progress of receiving a range: a document in config.receiving, written in
// the unit of each batch, so that the next primary continues from there.
type progress struct {
	ns        string
	operation int64
	from      string
	// cleared says that older documents in the range have been removed, copied that the whole
	// range has been copied; after is the last _id that was copied.
	cleared, copied bool
	after           bson.Value
	// position is the donor's cluster time up to which all writes have been applied, once
	// copied is set.
	position         uint64
	done             bool // position is the last one of the move
	documents, bytes int64
}

func (p *progress) doc() bson.Doc {
	b := new(bson.Builder).String("_id", p.ns).Int64("operation", p.operation).String("from", p.from).
		Bool("cleared", p.cleared).Bool("copied", p.copied)
	if !p.after.IsMissing() {
		b.Value("after", p.after)
	}
	return b.Timestamp("position", p.position).Bool("done", p.done).Int64("documents", p.documents).Int64("bytes", p.bytes).Finish()
}

// received returns the progress of receiving a range of a collection, or nil.
func (s *Shard) received(ns schema.Namespace) (*progress, error) {
	d, err := s.node.Stored(receiving, ns.String())
	if err != nil || d == nil {
		return nil, err
	}
	p := &progress{
		ns: ns.String(), operation: d.Lookup("operation").Int64(), from: d.Lookup("from").Str(), cleared: d.Lookup("cleared").Bool(),
		copied: d.Lookup("copied").Bool(), after: d.Lookup("after"), position: d.Lookup("position").Timestamp(), done: d.Lookup("done").Bool(),
		documents: d.Lookup("documents").Int64(), bytes: d.Lookup("bytes").Int64(),
	}
	return p, nil
}

// receive answers {_shardsvrReceive: ns, uuid, key, unique, generation, from, min, max,
// bytesPerSecond}: it hides the range and starts to receive it from the donor. Errors: 117 while another range is being received.
func (r *request) receive(ctx context.Context) error {
	from, g := r.body.Lookup("from"), r.body.Lookup("generation")
	if from.Type != bson.TypeString || g.Type != bson.TypeDocument || g.Doc().Lookup("epoch").Type != bson.TypeObjectID || g.Doc().Lookup("timestamp").Type != bson.TypeTimestamp {
		return mongoerr.New(mongoerr.BadValue, "the request needs from and generation: %s", r.body)
	}
	if c := r.s.cat.Lookup(r.ns); c == nil || !r.isUUID(c) || ownsNothing(c) {
		if err := r.likeDonor(ctx, from.Str(), g.Doc()); err != nil {
			return err
		}
	}
	busy := mongoerr.New(mongoerr.ConflictingOperationInProgress, "another range of %s is being received", r.ns)
	if c := r.s.cat.Lookup(r.ns); c != nil {
		if h := receivingOf(c); h != nil && h.Operation != r.fence.Number {
			return busy
		}
	}
	p, err := r.s.received(r.ns)
	if err != nil {
		return err
	}
	begins := p == nil || p.operation != r.fence.Number
	if begins { // before the entry says it: whoever finds that receives by this document
		p = &progress{ns: r.ns.String(), operation: r.fence.Number, from: from.Str()}
		if err := r.s.put(ctx, nil, receiving, p.doc()); err != nil {
			return err
		}
	}
	_, err = r.change(ctx, func(s *schema.Sharding) error {
		span, err := r.rangeOf(s.Key)
		if err != nil {
			return err
		}
		var kept []schema.HiddenRange
		for _, h := range s.Hidden {
			switch {
			case h.Receiving && h.Operation == r.fence.Number && h.Same(span):
				return nil // in progress already
			case h.Receiving:
				return busy
			}
			// What it holds of the range goes before anything is received, and then it
			// must not take what was received with it.
			for _, rest := range h.Without(span) {
				kept = append(kept, schema.HiddenRange{ShardRange: rest, Operation: h.Operation})
			}
		}
		s.Hidden = append(kept, schema.HiddenRange{ShardRange: span, Operation: r.fence.Number, Receiving: true})
		return nil
	})
	if err != nil {
		return err
	}
	if begins {
		r.tellLog(ctx, "A range is being received", "from", from.Str())
		r.s.stop(r.ns) // stops a sweep, which starts again afterwards
	}
	if j := r.s.begin(r.ns); j != nil && j.receive != nil {
		j.receive.pace.limit(r.body)
	}
	return nil
}

// likeDonor creates the collection like the donor's, at version 0|0. One that is here with
// the same UUID may be of a time when the shard owned a part of it: it stays if it still is
// like the donor's, and is laid by its shard key if all of it has gone since.
func (r *request) likeDonor(ctx context.Context, from string, generation bson.Doc) error {
	set, err := r.s.set(from)
	if err != nil {
		return err
	}
	a, err := askOther(ctx, set, client.Call{DB: "admin", Body: new(bson.Builder).String("_shardsvrClone", r.name).Bool("describe", true).Finish(), Idempotent: true})
	if err != nil {
		return err
	}
	key := r.body.Lookup("key")
	if key.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.BadValue, "the request needs a key: %s", r.body)
	}
	k, err := schema.ParseShardKey(key.Doc())
	if err != nil {
		return err
	}
	v := schema.ShardGeneration{Epoch: generation.Lookup("epoch").ObjectID(), Timestamp: generation.Lookup("timestamp").Timestamp()}
	entry := &schema.Sharding{Key: k, Unique: r.body.Lookup("unique").Truthy(), Version: v.At(0), Shard: r.s.node.ShardName()}
	if c := r.s.cat.Lookup(r.ns); c != nil && r.isUUID(c) {
		if c.Sharding().Version.ShardGeneration == v && like(c, a.Reply) {
			return r.s.cat.LieByShardKey(ctx, r.ns)
		}
		if err := r.s.dropCollection(ctx, r.ns); err != nil {
			return err
		}
	}
	asDonor := *r
	asDonor.body = new(bson.Builder).Value("uuid", r.body.Lookup("uuid")).Value("options", a.Reply.Lookup("options")).Value("indexes", a.Reply.Lookup("indexes")).Finish()
	return r.s.create(ctx, &asDonor, entry)
}

// ownsNothing reports whether the shard has a sharded collection of which it owns no range
// and receives none.
func ownsNothing(c *catalog.Collection) bool {
	return c.Sharding() != nil && c.Sharding().Version.Major == 0 && receivingOf(c) == nil
}

// like reports whether a collection has the options and the indexes of a description.
func like(c *catalog.Collection, d bson.Doc) bool {
	options := c.Options
	if options == nil {
		options = bson.Empty
	}
	if !bson.Equal(bson.Document(options), d.Lookup("options")) {
		return false
	}
	n := 0
	for v := range d.Lookup("indexes").Doc().Values() {
		ix := c.Index(v.Doc().Lookup("name").Str())
		if ix == nil || !bson.Equal(bson.Document(ix.Spec), v) {
			return false
		}
		n++
	}
	return n == len(c.Indexes())
}

// behindWait bounds how long a request waits until a recipient has nearly caught up.
const behindWait = time.Second

// received answers {_shardsvrReceived: ns, min, max, until, behind, bytesPerSecond} with the
// progress. bytesPerSecond bounds the copy from now on, 0 and none for no bound. With
// until it first waits until all writes up to there have been applied; with behind it waits,
// behindWait at most, until the recipient is behind by no more than so many milliseconds, or
// has failed. Errors: 20 if nothing is being received, 96 if it has failed.
func (r *request) received(ctx context.Context) error {
	c := r.s.cat.Lookup(r.ns)
	if c == nil || receivingOf(c) == nil {
		return mongoerr.New(mongoerr.IllegalOperation, "no range of %s is being received", r.ns)
	}
	j := r.s.begin(r.ns)
	if j == nil || j.receive == nil {
		return mongoerr.New(mongoerr.ConflictingOperationInProgress, "the range of %s is not received yet", r.ns)
	}
	j.receive.pace.limit(r.body)
	if v := r.body.Lookup("until"); v.Type == bson.TypeTimestamp {
		if err := j.receive.await(ctx, v.Timestamp()); err != nil {
			return err
		}
	}
	if v := r.body.Lookup("behind"); v.Type == bson.TypeInt64 {
		j.receive.awaitBehind(ctx, time.Duration(v.Int64())*time.Millisecond)
	}
	if j.ctx.Err() != nil {
		return errEnded
	}
	j.receive.mu.Lock()
	defer j.receive.mu.Unlock()
	p := &j.receive.at
	r.reply.Timestamp("position", p.position).Int64("documents", p.documents).Int64("bytes", p.bytes).Bool("done", p.done)
	j.receive.status(r.reply)
	return nil
}

// catchUpPause is how long a recipient waits before it reads the donor's log again.
const catchUpPause = 50 * time.Millisecond

// recipient receives a range from its donor, in one goroutine.
type recipient struct {
	donor
	destination
	key  *schema.ShardKey
	span schema.ShardRange

	follower
	at    progress
	until uint64 // the end that a caller waits for, or 0
	pace  pace   // of the copy
}

// await waits until all writes up to a time of the donor have been applied durably. Errors:
// 96, errEnded, the cause of ctx's end.
func (r *recipient) await(ctx context.Context, until uint64) error {
	r.note(func() { r.until = max(r.until, until) })
	for {
		r.mu.Lock()
		done, err, changed := r.at.done && r.at.position >= until, r.err, r.changed
		r.mu.Unlock()
		if done {
			return nil
		}
		if errors.Is(err, errEnded) {
			return err
		}
		if err != nil {
			return mongoerr.New(mongoerr.OperationFailed, "the range is not received: %s", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run receives until ctx ends.
func (r *recipient) run(ctx context.Context) error { return r.receive(ctx, r.attempt) }

// retrying calls f until it succeeds, ctx ends, or f fails with an error that a retry does
// not fix (mends says no), which it returns.
func retrying(ctx context.Context, mends func(error) bool, f func(context.Context) error) error {
	for pause := catchUpPause; ; pause = min(2*pause, time.Second) {
		err := f(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !mends(err) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// transient reports whether a retry may succeed: after an error of the network, or of a
// member that is no longer primary.
func transient(err error) bool {
	switch mongoerr.From(err).Code {
	case mongoerr.HostUnreachable, mongoerr.FailedToSatisfyReadPreference, mongoerr.NotWritablePrimary, mongoerr.PrimarySteppedDown,
		mongoerr.InterruptedDueToReplStateChange, mongoerr.InterruptedAtShutdown, mongoerr.NotPrimaryNoSecondaryOk, mongoerr.ShutdownInProgress:
		return true
	}
	return false
}

func (r *recipient) attempt(ctx context.Context) error {
	p, err := r.s.received(r.ns)
	if err != nil {
		return err
	}
	r.coll = r.s.cat.Lookup(r.ns)
	if r.coll == nil || p == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "%s is not being received", r.ns)
	}
	hidden := receivingOf(r.coll)
	if hidden == nil || hidden.Operation != p.operation {
		return r.errOver()
	}
	r.coll, r.key, r.span = r.coll.Stored(), r.coll.Sharding().Key, hidden.ShardRange
	r.buckets = r.coll.HoldsBuckets()
	if r.set, err = r.s.set(p.from); err != nil {
		return err
	}
	r.note(func() { r.at = *p })
	if !r.at.cleared {
		if err := r.s.clear(ctx, r.coll, r.span); err != nil {
			return err
		}
		r.note(func() { r.at.cleared = true }) // stored with the first batch
	}
	if err := r.copy(ctx); err != nil {
		return err
	}
	return r.follow(ctx)
}

// step writes documents, and the progress as updated by f, in one unit, to the disk.
func (r *recipient) step(ctx context.Context, f func(*progress), write func(*catalog.Unit, *progress) error) error {
	return r.write(ctx, storage.Journaled, f, write)
}

func (r *recipient) write(ctx context.Context, d storage.Durability, f func(*progress), write func(*catalog.Unit, *progress) error) error {
	var next progress
	err := r.s.cat.Run(ctx, d, func(u *catalog.Unit) error {
		u.Moving = true
		next = r.at
		f(&next)
		if write != nil {
			if err := write(u, &next); err != nil {
				return err
			}
		}
		if err := r.stillReceives(); err != nil {
			return err
		}
		return r.s.put(ctx, u, receiving, next.doc())
	})
	if err == nil {
		r.note(func() { r.at = next })
	}
	return err
}

// stillReceives is asked by each unit, inside the gates of what it has written: a job may
// outlive its term as primary, and once the range is owned here, what the donor's log tells of
// it is how it goes there. Errors: 117.
func (r *recipient) stillReceives() error {
	if c := r.s.cat.Lookup(r.ns); c != nil {
		if h := receivingOf(c); h != nil && h.Operation == r.at.operation {
			return nil
		}
	}
	return r.errOver()
}

func (r *recipient) errOver() error {
	return mongoerr.New(mongoerr.ConflictingOperationInProgress, "the range of %s is no longer being received", r.ns)
}

// copy copies the whole range. It first notes a position in the donor's log, which is stored
// with the first batch; writes during the copy are in the log after it.
func (r *recipient) copy(ctx context.Context) error {
	if r.at.position == 0 {
		if err := r.seal(ctx); err != nil {
			return err
		}
		t, err := r.now(ctx)
		if err != nil {
			return err
		}
		r.note(func() { r.at.position = t })
	}
	if r.at.copied {
		return nil
	}
	reading, end := context.WithCancel(ctx)
	batches := r.batches(reading, r.at.after)
	defer func() {
		end()
		for range batches { // until the reader has ended
		}
	}()
	w := writer{r: r}
	for b := range batches {
		err := b.err
		if err == nil {
			err = w.store(ctx, b)
		}
		if err != nil {
			return errors.Join(err, w.wait())
		}
	}
	if err := w.wait(); err != nil {
		return err
	}
	if !r.at.copied {
		return context.Cause(ctx)
	}
	return r.seal(ctx) // so the donor has less to seal while it is blocked
}

// writer stores the batches of a copy in their order. While one is committed, the next is
// evaluated: what both have in common is the progress, which is written at the end of each,
// when the one before is committed.
type writer struct {
	r         *recipient
	committed chan error // of the batch that is being committed; nil for none
	next      progress   // with that batch
}

// wait waits until the last batch is committed.
func (w *writer) wait() error {
	if w.committed == nil {
		return nil
	}
	err := <-w.committed
	w.committed = nil
	if err == nil {
		w.r.note(func() { w.r.at = w.next })
	}
	return err
}

// store evaluates a batch, waits for the one before, and begins to commit it.
func (w *writer) store(ctx context.Context, b batch) error {
	r := w.r
	var ids []bson.Value
	var docs []bson.Doc
	for v := range b.documents.Values() {
		docs = append(docs, v.Doc())
		if r.buckets && !(b.next.Type == bson.TypeDocument && b.next.Doc().Has("key")) { // a walk by the shard key sends none twice
			ids = append(ids, v.Doc().Lookup("_id"))
		}
	}
	for {
		u := r.s.cat.Begin()
		u.Moving = true
		err := w.evaluate(ctx, u, b, docs, ids)
		if err == nil {
			w.committed = make(chan error, 1)
			// The last step is on disk, and so is what is before it in the log.
			go func() { w.committed <- u.Commit(ctx, storage.Buffered) }()
			return nil
		}
		u.Abort()
		if !errors.Is(err, storage.ErrLockBusy) || ctx.Err() != nil {
			return err
		}
		if err := errors.Join(w.wait(), storage.WaitBusy(ctx, err)); err != nil {
			return err
		}
	}
}

// evaluate writes a batch and the progress into a unit. Documents that are here already are
// stored once the batch before is committed, which may have brought them.
func (w *writer) evaluate(ctx context.Context, u *catalog.Unit, b batch, docs []bson.Doc, ids []bson.Value) error {
	r, here := w.r, docs
	if !r.buckets {
		var err error
		if here, err = u.Import(ctx, r.coll, docs); err != nil {
			return err
		}
	}
	if err := w.wait(); err != nil {
		return err
	}
	if err := r.find(ctx, ids); err != nil {
		return err
	}
	next := r.at
	next.after, next.copied = b.next, b.next.IsMissing()
	for _, doc := range docs {
		next.documents++
		next.bytes += int64(len(doc))
	}
	for _, doc := range here {
		next.documents--
		next.bytes -= int64(len(doc))
		if err := r.store(ctx, u, doc, &next); err != nil {
			return err
		}
	}
	w.next = next
	if err := r.stillReceives(); err != nil {
		return err
	}
	return r.s.put(ctx, u, receiving, next.doc())
}

// batch is a part of the range, as the donor sends it: next is where to continue, missing
// at the end.
type batch struct {
	documents bson.Doc
	next      bson.Value
	err       error
}

// batches reads the range from a place on, one batch ahead of the one that is stored, until
// its end, an error, or the end of ctx; then it closes the channel.
func (r *recipient) batches(ctx context.Context, after bson.Value) <-chan batch {
	out := make(chan batch) // the next one waits here
	go func() {
		defer close(out)
		for {
			begun := time.Now()
			request := r.request()
			if !after.IsMissing() {
				request.Value("after", after)
			}
			var b batch
			a, err := r.ask(ctx, "admin", request.Finish())
			if b.err = err; err == nil {
				b.documents, b.next = a.Reply.Lookup("documents").Doc(), a.Reply.Lookup("next")
			}
			select {
			case out <- b:
			case <-ctx.Done():
				return
			}
			if after = b.next; err != nil || after.IsMissing() || !r.pace.wait(ctx, begun, len(b.documents)) {
				return
			}
		}
	}()
	return out
}

func (r *recipient) request() *bson.Builder {
	return new(bson.Builder).String("_shardsvrClone", r.ns.String()).Doc("min", r.key.Doc(r.span.Min)).Doc("max", r.key.Doc(r.span.Max))
}

// store replaces or inserts a document of the donor, by its _id. Errors: 11000 if a document
// outside of the range has that _id.
func (r *recipient) store(ctx context.Context, u *catalog.Unit, doc bson.Doc, p *progress) error {
	key, old, err := r.lock(ctx, u, doc.Lookup("_id"))
	if err != nil {
		return err
	}
	if old == nil {
		p.documents++
		p.bytes += int64(len(doc))
		return r.insert(ctx, u, doc)
	}
	if !r.holds(old) {
		return mongoerr.New(mongoerr.DuplicateKey, "the recipient has another document with _id %s", doc.Lookup("_id"))
	}
	return r.replace(ctx, u, key, old, doc)
}

// holds reports whether a document is in the range.
func (r *recipient) holds(doc bson.Doc) bool {
	at, err := r.key.Append(nil, doc)
	return err == nil && r.span.Holds(at)
}

// follow tails the donor's log, and applies the changes to the range, until it is done.
func (r *recipient) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		begun := time.Now()
		r.mu.Lock()
		until := r.until
		r.mu.Unlock()
		if !r.at.done || r.at.position < until {
			more, err := r.advance(ctx, until)
			if err != nil {
				return err
			}
			if more {
				continue
			}
		}
		var changed chan struct{}
		r.note(func() { r.caughtUp = begun })
		r.mu.Lock()
		if changed = r.changed; r.until != until {
			r.mu.Unlock()
			continue
		}
		r.mu.Unlock()
		rest(ctx, changed)
	}
	return context.Cause(ctx)
}

// advance reads a batch of the donor's log. When all writes up to until, if not 0, have been
// applied, nothing follows: the range is done. Behind that position the donor's log tells how
// its documents are removed there, once the range is the recipient's, and nothing of that may
// happen here.
func (r *recipient) advance(ctx context.Context, until uint64) (more bool, err error) {
	more, err = r.readLog(ctx)
	if err != nil || more {
		return more, err
	}
	if ends := until > 0 && r.at.position >= until && !r.at.done; !ends {
		if r.read == 0 {
			return false, r.mergeSessions(ctx)
		}
		return false, nil
	}
	if err := r.mergeSessions(ctx); err != nil {
		return false, err
	}
	return false, r.step(ctx, func(p *progress) { p.done = true }, nil)
}

// readLog reads a batch of the donor's log, and stores the current versions of the documents
// that it names. more says that the log has more.
func (r *recipient) readLog(ctx context.Context) (more bool, err error) {
	ids, last, more, err := r.changes(ctx, r.at.position)
	if err != nil || last == r.at.position {
		return false, err
	}
	for most := r.batch(); len(ids) > most; {
		if err := r.refetch(ctx, ids[:most], r.at.position); err != nil {
			return false, err
		}
		ids = ids[most:]
	}
	return more, r.refetch(ctx, ids, last)
}

// refetch fetches the current versions of documents and stores them, which brings the
// recipient up to position.
func (r *recipient) refetch(ctx context.Context, ids []bson.Value, position uint64) error {
	found := map[string]bson.Doc{}
	if len(ids) > 0 {
		b := r.request().OpenArray("ids")
		for i, id := range ids {
			b.Value(bson.Index(i), id)
		}
		a, err := r.ask(ctx, "admin", b.Close().Finish())
		if err != nil {
			return err
		}
		if half := len(ids) / 2; half > 0 && a.Reply.Has("next") { // they are more than a reply takes
			if err := r.refetch(ctx, ids[:half], r.at.position); err != nil {
				return err
			}
			return r.refetch(ctx, ids[half:], position)
		}
		if err := r.find(ctx, ids); err != nil {
			return err
		}
		for v := range a.Reply.Lookup("documents").Doc().Values() {
			id := v.Doc().Lookup("_id")
			found[catalog.IDName(id)] = v.Doc()
		}
	}
	return r.step(ctx, func(p *progress) { p.position = max(p.position, position) }, func(u *catalog.Unit, p *progress) error {
		for _, id := range ids {
			if doc := found[catalog.IDName(id)]; doc != nil {
				if err := r.store(ctx, u, doc, p); err != nil {
					return err
				}
				continue
			}
			key, old, err := r.lock(ctx, u, id)
			if err != nil {
				return err
			}
			if old == nil || !r.holds(old) {
				continue
			}
			if err := remove(ctx, u, r.coll, key, old); err != nil {
				return err
			}
			p.documents--
			p.bytes -= int64(len(old))
		}
		return nil
	})
}
