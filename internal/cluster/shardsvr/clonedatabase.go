package shardsvr

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// movePrimary: the recipient makes and copies what is not sharded in a database, while
// nobody writes it on the donor. What it copies comes from one cursor of the donor for each
// collection, so from one state; where that is lost, or the recipient fails over, the
// collection at hand begins anew, and those that are finished stay.

// cloning is how far that is: a document of config.cloning.
type cloning struct {
	db        string
	operation int64
	from      string
	// begun are the collections that were begun, in order; all of them are finished but
	// for the last where finished is less than their number.
	begun     []string
	finished  int
	done      bool
	documents int64
}

var cloningsOf = schema.Namespace{DB: "config", Coll: "cloning"}

func (c *cloning) doc() bson.Doc {
	return new(bson.Builder).String("_id", c.db).Int64("operation", c.operation).String("from", c.from).Strings("begun", c.begun...).
		Int32("finished", int32(c.finished)).Bool("done", c.done).Int64("documents", c.documents).Finish()
}

// cloning is how far the copy of a database is; nil for none.
func (s *Shard) cloning(db string) (*cloning, error) {
	d, err := s.node.Stored(cloningsOf, db)
	if err != nil || d == nil {
		return nil, err
	}
	c := &cloning{db: db, operation: d.Lookup("operation").Int64(), from: d.Lookup("from").Str(), finished: int(d.Lookup("finished").Int32()),
		done: d.Lookup("done").Bool(), documents: d.Lookup("documents").Int64()}
	for v := range d.Lookup("begun").Doc().Values() {
		c.begun = append(c.begun, v.Str())
	}
	return c, nil
}

// cloneWait is how long the request waits for the end of the copy before it says how far
// that is.
const cloneWait = time.Second

// cloneDatabase answers {_shardsvrCloneDatabase: db, from}: what is not sharded there is
// copied here from now on. Reply: {done, copied: documents, failed: why or null}.
func (r *request) cloneDatabase(ctx context.Context) error {
	from := r.body.Lookup("from")
	if from.Type != bson.TypeString {
		return mongoerr.New(mongoerr.BadValue, "the request needs from: %s", r.body)
	}
	at, err := r.s.cloning(r.name)
	if err != nil {
		return err
	}
	if at == nil || at.operation != r.fence.Number {
		at = &cloning{db: r.name, operation: r.fence.Number, from: from.Str()}
		if err := r.s.put(ctx, nil, cloningsOf, at.doc()); err != nil {
			return err
		}
	}
	var failed error
	if !at.done {
		c := &cloner{s: r.s, db: r.name, failed: make(chan struct{})}
		j := r.s.beginJob(schema.Namespace{DB: r.name}, func() *job { return &job{clone: c, run: c.run} })
		if j == nil {
			return mongoerr.New(mongoerr.InterruptedAtShutdown, "the shard ends")
		}
		timer := time.NewTimer(cloneWait)
		defer timer.Stop()
		select {
		case <-j.ended:
		case <-j.clone.failed:
			failed = j.clone.cause()
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if at, err = r.s.cloning(r.name); err != nil {
			return err
		}
	}
	r.reply.Bool("done", at != nil && at.done)
	if at != nil {
		r.reply.Int64("copied", at.documents)
	}
	if failed != nil {
		r.reply.String("failed", failed.Error())
	} else {
		r.reply.Null("failed")
	}
	return nil
}

// cloner copies a database. One goroutine runs it.
type cloner struct {
	s  *Shard
	db string
	at *cloning
	// failed is closed where the copy cannot come to its end; err says why.
	failed chan struct{}
	mu     sync.Mutex
	err    error
}

func (c *cloner) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// run copies until all is here, or ctx ends: what it meets that waiting does not mend it
// leaves in err.
func (c *cloner) run(ctx context.Context) error {
	err := retrying(ctx, func(err error) bool { return transient(err) || mongoerr.Is(err, mongoerr.CursorNotFound) }, c.attempt)
	if err == nil {
		return nil
	}
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	close(c.failed)
	return err
}

func (c *cloner) attempt(ctx context.Context) (err error) {
	if c.at, err = c.s.cloning(c.db); err != nil {
		return err
	}
	if c.at == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "%s is not being copied", c.db)
	}
	set, err := c.s.set(c.at.from)
	if err != nil {
		return err
	}
	list, err := c.donorHas(ctx, set)
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := c.take(ctx, set, d); err != nil {
			return err
		}
	}
	// Nobody may have changed a definition after the copy began.
	again, err := c.donorHas(ctx, set)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(list, again, func(a, b bson.Doc) bool { return bson.Equal(bson.Document(a), bson.Document(b)) }) {
		return mongoerr.New(mongoerr.ConflictingOperationInProgress, "the collections of %s were changed meanwhile", c.db)
	}
	// Nobody writes on the donor any more: all that retryable writes have executed there is here
	// before one of them can be sent again.
	d := &donor{s: c.s, ns: schema.Namespace{DB: c.db}, set: set}
	if err := d.mergeSessions(ctx); err != nil {
		return err
	}
	return c.note(ctx, func(at *cloning) { at.done = true })
}

// note changes how far the copy is.
func (c *cloner) note(ctx context.Context, f func(*cloning)) error {
	next := *c.at
	next.begun = slices.Clone(next.begun)
	f(&next)
	if err := c.s.put(ctx, nil, cloningsOf, next.doc()); err != nil {
		return err
	}
	c.at = &next
	return nil
}

// donorHas is what the donor has in the database.
func (c *cloner) donorHas(ctx context.Context, set *client.Set) (list []bson.Doc, err error) {
	for after := ""; ; {
		b := new(bson.Builder).String("_shardsvrDescribe", c.db).String("after", after)
		a, err := askOther(ctx, set, client.Call{DB: "admin", Body: b.Finish(), Idempotent: true})
		if err != nil {
			return nil, err
		}
		for v := range a.Reply.Lookup("collections").Doc().Values() {
			list = append(list, v.Doc())
		}
		next := a.Reply.Lookup("next")
		if next.Type != bson.TypeString {
			return list, nil
		}
		after = next.Str()
	}
}

// take makes one collection of the donor here, and copies what is in it. Errors: 48.
func (c *cloner) take(ctx context.Context, set *client.Set, d bson.Doc) error {
	ns := schema.Namespace{DB: c.db, Coll: d.Lookup("name").Str()}
	if of := d.Lookup("sharding"); of.Type == bson.TypeDocument {
		return c.s.entryLike(ctx, ns, d, of.Doc())
	}
	place := slices.Index(c.at.begun, ns.Coll)
	if place >= 0 && place < c.at.finished {
		return nil
	}
	have := c.s.cat.Lookup(ns)
	switch {
	case place >= 0: // begun, and not finished
	case have != nil && (have.Sharding() == nil || have.Sharding().Version.Major > 0):
		return mongoerr.New(mongoerr.NamespaceExists, "the recipient has a collection %s already", ns)
	default:
		if err := c.note(ctx, func(at *cloning) { at.begun = append(at.begun, ns.Coll) }); err != nil {
			return err
		}
	}
	if err := c.s.dropCollection(ctx, ns); err != nil {
		return err
	}
	if err := c.s.makeLike(ctx, ns, d, nil); err != nil {
		return err
	}
	copied := int64(0)
	if !d.Lookup("view").Truthy() {
		var err error
		if copied, err = c.copy(ctx, set, ns); err != nil {
			return err
		}
	}
	return c.note(ctx, func(at *cloning) {
		at.finished = len(at.begun)
		at.documents += copied
	})
}

// entryLike has a primary shard to be know a sharded collection: at no version, where it
// owns nothing of it.
func (s *Shard) entryLike(ctx context.Context, ns schema.Namespace, d, of bson.Doc) error {
	k, err := schema.ParseShardKey(of.Lookup("key").Doc())
	if err != nil {
		return err
	}
	g := schema.ShardGeneration{Epoch: of.Lookup("epoch").ObjectID(), Timestamp: of.Lookup("timestamp").Timestamp()}
	if have := s.cat.Lookup(ns); have != nil {
		switch h := have.Sharding(); {
		case h == nil:
			return mongoerr.New(mongoerr.NamespaceExists, "the recipient has a collection %s that is not sharded", ns)
		case h.Version.Major > 0 || h.Version.ShardGeneration == g:
			return nil
		}
		if err := s.dropCollection(ctx, ns); err != nil { // of an earlier life
			return err
		}
	}
	return s.makeLike(ctx, ns, d, &schema.Sharding{Key: k, Unique: of.Lookup("unique").Truthy(), Version: g.At(0), Shard: s.node.ShardName()})
}

// copy copies the documents of a collection, or of a time series its measurements, in the
// order in which they lie.
func (c *cloner) copy(ctx context.Context, set other, ns schema.Namespace) (n int64, err error) {
	a, err := askOther(ctx, set, client.Call{DB: ns.DB, Body: new(bson.Builder).String("find", ns.Coll).Int32("batchSize", cloneBatch).Finish(), Idempotent: true})
	for name := "firstBatch"; ; name = "nextBatch" {
		if err != nil {
			return n, err
		}
		cursor := a.Reply.Lookup("cursor").Doc()
		var docs []bson.Doc
		bytes := 0
		for v := range cursor.Lookup(name).Doc().Values() {
			if bytes > 0 && bytes+len(v.Doc()) > cloneBytes {
				if err := c.insert(ctx, ns, docs); err != nil {
					return n, err
				}
				docs, bytes = nil, 0
			}
			docs, bytes, n = append(docs, v.Doc()), bytes+len(v.Doc()), n+1
		}
		if err := c.insert(ctx, ns, docs); err != nil {
			return n, err
		}
		id := cursor.Lookup("id").Int64()
		if id == 0 {
			return n, nil
		}
		more := new(bson.Builder).Int64("getMore", id).String("collection", ns.Coll).Int32("batchSize", cloneBatch).Finish()
		a, err = askOther(ctx, set, client.Call{DB: ns.DB, Body: more, Member: a.Member})
	}
}

// cloneBatch is how many documents are read at once; a reply has 16 MB at most.
const cloneBatch = 5000

// insert stores documents as they are.
func (c *cloner) insert(ctx context.Context, ns schema.Namespace, docs []bson.Doc) error {
	if len(docs) == 0 {
		return nil
	}
	b := new(bson.Builder).String("insert", ns.Coll).Bool("bypassDocumentValidation", true).Bool("bypassEmptyTsReplacement", true).OpenArray("documents")
	for i, d := range docs {
		b.Doc(bson.Index(i), d)
	}
	reply, err := c.s.run(ctx, ns.DB, b.Close().Finish())
	if err == nil && reply.Has("writeErrors") {
		err = mongoerr.New(mongoerr.OperationFailed, "documents of %s cannot be stored: %s", ns, reply.Lookup("writeErrors"))
	}
	return err
}

// dropUnsharded answers {_shardsvrDropUnsharded: db}: on the donor of a movePrimary that is
// committed all that is not sharded goes; on the recipient of one that is undone, what it
// has made.
func (r *request) dropUnsharded(ctx context.Context) error {
	r.s.stop(schema.Namespace{DB: r.name})
	at, err := r.s.cloning(r.name)
	if err != nil {
		return err
	}
	for _, c := range r.s.cat.Collections(r.name) {
		mine := at != nil && at.operation == r.fence.Number && slices.Contains(at.begun, c.Namespace.Coll)
		if c.Sharding() != nil || c.Namespace.Coll == schema.ViewsCollection || r.fence.Phase != step.Committed && !mine {
			continue
		}
		if err := r.s.dropCollection(ctx, c.Namespace); err != nil {
			return err
		}
	}
	if at == nil || r.fence.Phase != step.Committed && at.operation != r.fence.Number {
		return nil
	}
	return r.s.remove(ctx, cloningsOf, bson.String(r.name))
}
