package command

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Cursor is a running query, as the executor gives it. It is used by one
// goroutine at a time.
type Cursor interface {
	// Next returns the next document, valid until the following call of Next, Park or
	// Close; nil at the end or, from a tailable cursor, if there is nothing yet.
	Next(ctx context.Context) (bson.Doc, error)
	// Close releases what the query holds. It is called exactly once.
	Close()
}

// Finite is a Cursor that may know, without another Next, that it is at its end
// (its limit is reached): the reply then closes it at once.
type Finite interface{ Exhausted() bool }

// Invalidated is a tailable Cursor that may end: a change stream.
type Invalidated interface{ Invalidated() bool }

// Awaiter is a tailable Cursor that can wait for documents.
type Awaiter interface {
	// Await returns when Next may have something, or when ctx ends.
	Await(ctx context.Context)
}

// Resting is an Awaiter that may want more to come together before it is read again.
type Resting interface {
	// Rest returns the moment before which a getMore does not read; it may be over. A getMore
	// waits for it as long as it may wait for documents.
	Rest() time.Time
}

// Paced is a tailable Cursor of a stream of which a router waits to know up to a time. Its
// methods are called by any goroutine at any time, but Begin and Passed by its owner.
type Paced interface {
	// Begin begins a getMore that ends without documents once the stream was read up to a
	// time; 0 for none.
	Begin(until uint64)
	// Until raises that time.
	Until(t uint64)
	// Passed reports whether it was reached by this getMore.
	Passed() bool
}

// Parked is a Cursor that can release resources between two batches.
type Parked interface {
	// Park is called after each batch except the last: the cursor saves its place.
	Park() error
	// Unpark is called before the next batch.
	Unpark(ctx context.Context) error
}

// Examiner is a Cursor that counts what it reads.
type Examiner interface {
	// Examined returns how many index keys and documents it has examined since it
	// was opened.
	Examined() (keys, docs int64)
}

// Sorting is a Cursor that may sort in memory.
type Sorting interface {
	// Sorts reports whether it does, and whether it had to spill rows to disk.
	Sorts() (sorts, spilled bool)
}

// Staged is a Cursor that knows what its stages have done.
type Staged interface{ ExecStats() bson.Doc }

// StagedFunc is a Staged of one function.
type StagedFunc func() bson.Doc

// ExecStats calls f.
func (f StagedFunc) ExecStats() bson.Doc { return f() }

// Resumable is a Cursor that may know where another one could resume.
type Resumable interface {
	// AppendToken writes postBatchResumeToken, where the client has asked for it;
	// held says that the last document was not put into the batch.
	AppendToken(b *bson.Builder, held bool)
}

// Documents makes a Cursor of documents that are there already.
func Documents(docs []bson.Doc) Cursor { return &documents{docs} }

type documents struct{ docs []bson.Doc }

func (c *documents) Next(context.Context) (bson.Doc, error) {
	if len(c.docs) == 0 {
		return nil, nil
	}
	d := c.docs[0]
	c.docs = c.docs[1:]
	return d, nil
}

func (c *documents) Exhausted() bool { return len(c.docs) == 0 }
func (c *documents) Close()          {}

// DefaultBatch is the batchSize of a client that gave none: 101 documents in
// the first batch, as many as fit 16 MiB in the following ones.
const DefaultBatch = -1

const (
	defaultFirstBatch = 101
	// maxBatchBytes bounds the documents of one batch, with what the array adds for each.
	maxBatchBytes = 16 << 20
)

// CursorSpec describes a cursor to WriteCursorReply.
type CursorSpec struct {
	// NS is the "ns" of the reply, and the collection that a getMore must name.
	NS     string
	Cursor Cursor
	// BatchSize is the client's batchSize, or DefaultBatch.
	BatchSize int64
	// SingleBatch closes the cursor after the first batch.
	SingleBatch bool
	// Tailable keeps the cursor open when Next has nothing, AwaitData makes getMore
	// wait for documents.
	Tailable, AwaitData bool
	// NoTimeout keeps the cursor however long the client leaves it idle.
	NoTimeout bool
	// Collections names the collections whose state the cursor holds between its
	// batches, so that Cursors.Invalidate finds it. (Package node names them by UUID.)
	Collections []string
	// Doing begins the error message where the query fails ("Executor error during find
	// command: db.coll"); "" for nothing.
	Doing string
	// Vars is written into the "cursor" document after "ns", for what some commands add
	// (postBatchResumeToken); nil for none. It is called after the batch, for every
	// batch.
	Vars func(b *bson.Builder)
}

// WriteCursorReply writes the reply of a command that opens a cursor, {cursor:
// {firstBatch, id, ns}}, and keeps the cursor for getMore if it is not exhausted. It
// takes over s.Cursor, which is closed in the end, whatever happens.
func WriteCursorReply(ctx context.Context, op *Op, s CursorSpec) error {
	c := newOpenCursor(op, s)
	defer c.closeUnlessKept()
	limit := s.BatchSize
	if limit < 0 {
		limit = defaultFirstBatch
	}
	op.Reply.OpenDoc("cursor")
	done, err := c.batch(ctx, op, "firstBatch", limit)
	if err != nil && s.Doing != "" {
		err = mongoerr.Under(err, s.Doing)
	}
	if err != nil {
		return err
	}
	return c.finishBatch(op, done || s.SingleBatch)
}

// GetMore writes the reply of getMore: {cursor: {nextBatch, id, ns}}. ns is the
// namespace that the client named, batchSize 0 or DefaultBatch for no bound but
// the bytes. maxTimeMS is how long to wait for documents where the cursor does,
// −1 if the client gave none.
func GetMore(ctx context.Context, op *Op, id int64, ns string, batchSize, maxTimeMS int64) error {
	began := time.Now()
	c, err := op.Dispatcher.Cursors.pin(op, id, ns)
	if err != nil {
		return err
	}
	if maxTimeMS >= 0 && !c.spec.AwaitData {
		op.Dispatcher.Cursors.unpin(c)
		return errNoAwait
	}
	if c.api != op.Generic.API {
		op.Dispatcher.Cursors.unpin(c)
		return mongoerr.New(mongoerr.APIMismatchError, "API parameter mismatch: getMore used params %s, the cursor-creating command used %s",
			op.Generic.API.Document(), c.api.Document())
	}
	defer c.closeUnlessKept()
	op.Stats.OriginatingCommand = c.command
	op.inherit(c.command.Lookup("comment"))
	if f := op.Dispatcher.FailGetMore; f != nil {
		if err := f.apply(ctx, op); err != nil {
			return err
		}
	}
	op.Stats.IsQuery = true
	op.SetPlanSummary(c.planSummary)
	if s, ok := c.spec.Cursor.(Staged); ok {
		op.Stats.ExecStats = s
	}
	if c.state != nil {
		if err := c.state.Check(); err != nil {
			return err
		}
	}
	ctx, stop := c.limit(ctx, op)
	defer stop()
	if p, ok := c.spec.Cursor.(Paced); ok {
		until := uint64(0)
		if v := op.Args.Value("until"); v.Type == bson.TypeTimestamp {
			until = v.Timestamp()
		}
		p.Begin(until)
	}
	if r, ok := c.spec.Cursor.(Resting); ok {
		if err := c.rest(ctx, op, min(time.Until(r.Rest()), awaits(maxTimeMS)-time.Since(began))); err != nil {
			return err
		}
	}
	if p, ok := c.spec.Cursor.(Parked); ok {
		if err := p.Unpark(ctx); err != nil {
			return err
		}
	}
	if batchSize <= 0 {
		batchSize = noLimit
	}
	op.Reply.OpenDoc("cursor")
	done, err := c.batch(ctx, op, "nextBatch", batchSize)
	for err == nil && !done && op.Stats.NReturned == 0 && c.spec.AwaitData {
		var more bool
		if more, err = c.await(ctx, op, began, maxTimeMS); err != nil || !more {
			break
		}
		// The empty batch is written again.
		op.Reply.Reset(nil).OpenDoc("cursor")
		done, err = c.batch(ctx, op, "nextBatch", batchSize)
	}
	if err != nil {
		return mongoerr.Under(err, "Executor error during getMore")
	}
	if err := c.finishBatch(op, done); err != nil {
		return err
	}
	if !op.Stats.CursorExhausted {
		op.NextBody = op.Body
	}
	return nil
}
