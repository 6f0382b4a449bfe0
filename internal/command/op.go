package command

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/telemetry"
	"github.com/mayflydb/mayfly/internal/waits"
)

// Op is one running request. The handler owns it; what other goroutines may read at the
// same time (currentOp, killOp) goes through the methods that say so.
//
// An Op is never reused: a goroutine that has found it in the table of clients may
// still read it when the next operation runs.
type Op struct {
	// ID is the opid, unique since start until it wraps around.
	ID         int32
	Client     *Client
	Dispatcher *Dispatcher
	Command    *Command
	// Name is the command's name as the client spelled it.
	Name string
	// DB is the database; NS is "db.collection", or "db.$cmd" where the command
	// names no collection. Collection and UUID are the command's value where its
	// Fields declare it to be one: a Handler that gets a UUID resolves it and
	// calls SetCollection.
	DB, NS, Collection string
	UUID               [16]byte

	Body      bson.Doc
	Sequences []Sequence
	Args      Args
	Generic   Generic
	Session   *Session
	// Execution makes sure that the statements of a retryable write are executed once;
	// nil for other operations.
	Execution *catalog.Execution
	// Transaction is the transaction of which op is a statement, else nil, and
	// ExpiryTime the instant by which rules hide documents from it.
	Transaction *catalog.Transaction
	ExpiryTime  int64
	// Needs are the privileges for it that the client was found to have; nil where
	// access is not controlled.
	Needs []auth.Need

	ReadConcern ReadConcern
	// State is the state of the store at a cluster time that read concern snapshot asks
	// for, else nil. A cursor that is opened takes it over.
	State        *repl.StateAt
	WriteConcern WriteConcern

	// Reply takes the reply's fields, without "ok", which is a double, or an int
	// where IntegerOK says so.
	Reply *bson.Builder
	// ReplyBytes is the length of the answer of an Intent, which has no Reply.
	ReplyBytes int
	// NextBody asks for an exhaust reply: see Response.Next.
	NextBody bson.Doc

	HasUUID, IntegerOK, ExhaustAllowed bool
	// Gone says that the operation has dropped the collection that it names: Top keeps
	// nothing about it.
	Gone bool
	// CloseConnection asks the front end to close the connection afterwards.
	CloseConnection bool
	// statements says that the handler profiles its statements one by one, statement
	// that this Op is one of them.
	statements bool
	failed     bool // its transaction is to be aborted, whatever the reply is
	hangsUp    bool // the connection is closed without a reply, for a fail point
	statement  *statement

	// Memory is what the handler has worked in. It is released once the operation has
	// been accounted for, together with the memory of the arguments: a handler that
	// sets it guarantees that nothing reads the request later, as a cursor would.
	Memory Releaser

	Start time.Time
	// awaited is how long a getMore has waited for documents, which is no work: the
	// profiler, the slow log and the latencies do not count it.
	awaited time.Duration
	// Deadline is when the operation's time limit is exceeded; the zero Time for never.
	Deadline time.Time
	Stats    Stats

	// OperationTime is the highest that shards have answered a router's operation.
	OperationTime client.Clock

	span        *telemetry.Span // nil where it is not traced
	waiting     *waits.Context  // of its handler; not a part of the Op: who keeps a context keeps no request and no reply
	seen        waits.Totals    // what it had waited at the end of the statement before
	intent      Intent          // nil for a command
	active      activity
	injected    *failure        // by the fail point
	opTime      repl.OpTime     // of its last write in a set
	clusterTime uint64          // see ClusterTime
	unmet       *mongoerr.Error // why the write concern was not met
	answer      *reply          // the owner of Reply's builder; nil if the Op has none of its own
}

// waits are what op waits for.
func (op *Op) waits() *waits.Waits {
	if op.waiting == nil {
		return nil
	}
	return &op.waiting.Waits
}

// Ending tells work without a context whether its operation should end. The zero Ending
// never does.
type Ending struct{ ctx context.Context }

// Ending returns op's Ending; the zero one for an operation that is not a request.
func (op *Op) Ending() Ending { return Ending{op.active.ctx} }

// EndWith makes op, an operation inside another one, end with that one.
func (op *Op) EndWith(outer *Op) { op.active.ctx = outer.active.ctx }

// Ended returns why the operation should end, or nil.
func (e *Ending) Ended() error {
	if e.ctx == nil {
		return nil
	}
	return interruption(e.ctx)
}

// Releaser is memory that is used again.
type Releaser interface{ Release() }

// Stats are what the operation did, for the profiler, the slow-operation log
// and serverStatus. The handler sets them.
type Stats struct {
	// IsQuery says that KeysExamined, DocsExamined and NReturned mean something
	// for this operation, IsWrite that it changed data.
	IsQuery, IsWrite bool

	KeysExamined, DocsExamined int64
	NReturned                  int64
	HasSortStage, UsedDisk     bool
	FromMultiPlanner           bool
	Replanned                  bool
	FromPlanCache              bool

	NInserted, NMatched     int64
	NModified, NUpserted    int64
	NDeleted                int64
	KeysInserted            int64
	KeysDeleted             int64
	WriteConflicts          int64
	CursorID                int64
	CursorExhausted         bool
	QueryHash, PlanCacheKey string // of the query's shape, "" if unknown

	// ExecStats is the tree of plan stages with their counters, or nil. It is
	// called only where a profile entry is written.
	ExecStats Staged
	// OriginatingCommand is the command that opened the cursor of a getMore.
	OriginatingCommand bson.Doc
}

// activity is the part of a running operation that other goroutines read.
type activity struct {
	ctx         context.Context // of its handler; nil for none
	cancel      context.CancelCauseFunc
	killed      atomic.Bool
	planSummary atomic.Pointer[string]
	yields      atomic.Int64
	progress    atomic.Pointer[Progress]
	report      atomic.Pointer[func() (Progress, bool)]
	waiting     atomic.Bool
	namespace   atomic.Pointer[string]
	comment     atomic.Pointer[bson.Value] // of the cursor, for a getMore without one

	summary, name first // memory of planSummary and namespace
}

// first is the memory for the first value of a shared string; usually there is no other.
type first string

// set sets what p points to.
func (f *first) set(p *atomic.Pointer[string], s string) {
	if p.Load() == nil {
		*f = first(s)
		p.Store((*string)(f))
		return
	}
	again := s // keeps s itself off the heap
	p.Store(&again)
}

// Progress is how far an operation is, for currentOp.
type Progress struct {
	Message     string
	Done, Total int64
}

// SetPlanSummary sets the summary of the plan that runs ("IXSCAN { a: 1 }"), which any
// goroutine may read.
func (op *Op) SetPlanSummary(s string) { op.active.summary.set(&op.active.planSummary, s) }

// PlanSummary returns what SetPlanSummary has set, or "".
func (op *Op) PlanSummary() string {
	if s := op.active.planSummary.Load(); s != nil {
		return *s
	}
	return ""
}

// SetProgress says how far the operation is, which any goroutine may read.
func (op *Op) SetProgress(p Progress) { op.active.progress.Store(&p) }

// ReportProgress sets f, which says how far the operation is. f returns false where
// there is nothing to report, and may be called by any goroutine until the operation
// ends.
func (op *Op) ReportProgress(f func() (Progress, bool)) { op.active.report.Store(&f) }

// progressNow returns the progress of the operation, or nil.
func (op *Op) progressNow() *Progress {
	if f := op.active.report.Load(); f != nil {
		if p, ok := (*f)(); ok {
			return &p
		}
	}
	return op.active.progress.Load()
}

// Yielded counts a point at which the operation yielded to others.
func (op *Op) Yielded() { op.active.yields.Add(1) }

// SetWaitingForLock reports whether the operation is waiting for another one.
func (op *Op) SetWaitingForLock(w bool) { op.active.waiting.Store(w) }

// SetCollection sets the collection that the command works on, where its name does not
// come from the request's first field.
func (op *Op) SetCollection(name string) {
	op.Collection = name
	op.SetNS(op.DB + "." + name)
}

// SetNS sets the namespace that currentOp, profiler and top show.
func (op *Op) SetNS(ns string) {
	op.NS = ns
	op.active.name.set(&op.active.namespace, ns)
}

// GrowReply takes memory for a reply of n bytes.
//
// Errors: 146 if there is none.
func (op *Op) GrowReply(n int) error {
	if op.answer == nil {
		return nil
	}
	return op.answer.held.Set(replyGrowth * n)
}

// HoldParsed takes memory for what is parsed from n bytes of the request: the current
// filter, statement or pipeline, in place of the previous one.
//
// Errors: 146 if there is none.
func (op *Op) HoldParsed(n int) error {
	if op.answer == nil || n <= largeText {
		return nil
	}
	return op.answer.parsed.Set(parsedCopies * n)
}

// Documents returns the documents of the array argument called name, whether they came
// inside the body or as a section of their own. Elements that are not documents are
// left out: declare the field as ArrayOf(Object) to reject them.
func (op *Op) Documents(name string) []bson.Doc {
	for i := range op.Sequences {
		if op.Sequences[i].ID == name {
			return op.Sequences[i].Docs
		}
	}
	v := op.Body.Lookup(name)
	if v.Type != bson.TypeArray {
		return nil
	}
	var docs []bson.Doc
	for it := v.Doc().Iter(); it.Next(); {
		if it.Value.Type == bson.TypeDocument {
			docs = append(docs, it.Value.Doc())
		}
	}
	return docs
}

type statement struct {
	kind    OpKind
	command bson.Doc
}

// Kind returns how the operation is counted and named.
func (op *Op) Kind() OpKind {
	if op.statement != nil {
		return op.statement.kind
	}
	return op.Command.Kind
}

// Controlled reports whether access is controlled for the operation.
func (op *Op) Controlled() bool { return op.Dispatcher.Authorize != nil && !op.Client.Internal }

// May reports whether the operation's client has a privilege.
func (op *Op) May(need auth.Need) bool {
	if !op.Controlled() {
		return true
	}
	p := op.Client.Principal()
	return p != nil && p.May(need)
}

// redacted replaces the body of a command with secrets.
const redacted = "###"

// ShownCommand is the command as logs, profile and currentOp print it.
func (op *Op) ShownCommand() bson.Doc {
	if op.statement != nil {
		return op.statement.command
	}
	if op.intent != nil {
		return op.intent.Shown()
	}
	if op.secret() {
		return new(bson.Builder).String(op.Name, redacted).Finish()
	}
	if c := op.active.comment.Load(); c != nil {
		return new(bson.Builder).Fields(op.Body).Value("comment", *c).Finish()
	}
	return op.Body
}

// secret reports whether the body has secrets: the command's own, or those of an
// explained command.
func (op *Op) secret() bool {
	c := op.Command
	if c.Name == "explain" && op.intent == nil {
		if _, v := op.Body.First(); v.Type == bson.TypeDocument {
			name, _ := v.Doc().First()
			c = op.Dispatcher.Registry.Lookup(name)
		}
	}
	return c != nil && c.Flags&Redacted != 0
}

// inherit sets the comment of a getMore without one to the cursor's.
func (op *Op) inherit(comment bson.Value) {
	if op.Generic.Comment.IsMissing() && !comment.IsMissing() {
		comment = comment.Clone()
		op.active.comment.Store(&comment)
	}
}

// kill ends the operation with err for its client.
func (op *Op) kill(err error) {
	op.active.killed.Store(true)
	op.active.cancel(err)
}

// Kill ends the operation; its client gets Interrupted (code 11601).
func (op *Op) Kill() { op.kill(errKilled) }

// Killed reports whether the operation was killed.
func (op *Op) Killed() bool { return op.active.killed.Load() }
