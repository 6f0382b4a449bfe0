package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/telemetry"
	"github.com/mayflydb/mayfly/internal/waits"
)

// Dispatcher turns requests into responses. Its parts are shared by the
// handlers through Op.Dispatcher. Make one with NewDispatcher.
type Dispatcher struct {
	Registry *Registry
	Params   *Params
	Cursors  *Cursors
	Sessions *Sessions
	// Transactions counts multi-document transactions.
	Transactions *Transactions
	Profiler     *Profiler
	Status       *Status
	Clients      Clients
	Metrics      Metrics
	Top          Top
	// Gate is what every command flagged Writes passes, and so do writers inside the
	// server.
	Gate Gate
	// UserWrites is whether clients may write to their databases.
	UserWrites UserWrites
	Log        *slog.Logger
	// Memory is the budget of all operations, from which large replies are taken;
	// nil for none.
	Memory *memory.Budget

	// RedactLogs says that the log has nothing of what clients give but names of
	// collections (parameter redactClientLogData).
	RedactLogs *BoolParam

	// FailCommand makes commands fail, for tests of drivers; nil if the server
	// does not run for tests.
	FailCommand *FailPoint
	// FailWrite makes statements of retryable writes fail; nil as FailCommand.
	FailWrite *FailPoint
	// FailGetMore makes a getMore fail that has found its cursor; nil as FailCommand.
	FailGetMore *FailPoint

	// Wall is the server's clock: what time it is for documents and their expiry. What passes
	// within the process (sessions, cursors, time limits) goes by the computer's.
	Wall *catalog.Clock
	// RemoveDue removes what is due, in a pass of the TTL monitor; nil on a server without one.
	RemoveDue func(ctx context.Context) error

	// Host is "name:port" of this server, as currentOp prints it.
	Host string
	// Member is this process as a member of a replica set; nil on a standalone.
	Member *repl.Member
	// Clock is the cluster time that a router has heard of; nil on other servers.
	Clock     *client.Clock
	quiescing quiescing
	// Background lists operations that no client's command runs, as currentOp shows them.
	// It is complete before the first command.
	Background []func() []bson.Doc
	// ProcessID names this run of the server in topologyVersion.
	ProcessID [12]byte
	// DefaultWrite returns the write concern of clients that give none, on a member or a
	// router; nil stands for the implicit one, the majority.
	DefaultWrite func(ctx context.Context) *WriteConcern
	// DefaultReadTime is the time limit in milliseconds of commands that read where
	// the client gave none (cluster parameter defaultMaxTimeMS); 0 for none.
	DefaultReadTime atomic.Int64
	// Authorize decides whether op's client may run it; nil allows everything. It is
	// not called for commands flagged NoAuth. Where it allows op, ended, if not nil, is
	// called when op has run.
	Authorize func(ctx context.Context, op *Op) (ended func(), err error)
	// Tracer sends spans of operations; nil for none.
	Tracer *telemetry.Tracer
	// Audit keeps what is done; nil for nobody.
	Audit Auditor
	// Admit waits until a ChecksOwner command may read or write here, on a shard, and
	// holds ChecksDatabase commands to the version of the database; nil elsewhere. Errors: 13, 169, 249, 319, 13388.
	Admit func(ctx context.Context, op *Op) error
	// Transact runs a statement of a transaction on a router; nil on other servers. What ends
	// a transaction is a command of its own.
	Transact func(ctx context.Context, op *Op, run Handler) error
	// WithoutLocal refuses commands on the database local, of which each server has its own, but for logins.
	WithoutLocal bool
	// Abandon aborts the transaction of a session that was ended or killed, on a router; nil
	// on other servers.
	Abandon func(id SessionID)
	// Writable returns nil if this member accepts writes, else the error for
	// clients; nil if it always does. Each member writes its own database local.
	Writable func() error
}

// NewDispatcher makes a Dispatcher with empty tables and the parameters that they obey.
func NewDispatcher(log *slog.Logger) *Dispatcher {
	d := &Dispatcher{Registry: NewRegistry(), Params: NewParams(), Status: NewStatus(), Log: log, ProcessID: bson.NewObjectID(), Wall: catalog.NewClock(nil)}
	d.Cursors = NewCursors(d.Params)
	d.Sessions = NewSessions(d.Params)
	d.Transactions = NewTransactions(d.Params)
	d.RedactLogs = d.Params.Bool(BoolSpec{Name: "redactClientLogData"})
	d.Profiler = NewProfiler()
	d.registerStatus()
	return d
}

// Advance sets the server's clock forward, for tests, removes what has come due by that, and
// returns the clock's time. Error 2.
func (d *Dispatcher) Advance(ctx context.Context, by time.Duration) (time.Time, error) {
	now, err := d.Wall.Advance(by)
	if err != nil {
		return now, mongoerr.New(mongoerr.BadValue, "%s", err)
	}
	if d.RemoveDue != nil {
		err = d.RemoveDue(ctx)
	}
	return now, err
}

// Dispatch runs one request to its end. It does not fail: errors are replies.
func (d *Dispatcher) Dispatch(ctx context.Context, req *Request) Response {
	answer := newReply(d.Memory)
	op := &Op{
		Client: req.Client, Dispatcher: d, Body: req.Body, Sequences: req.Sequences,
		ExhaustAllowed: req.ExhaustAllowed, Start: req.Start, Reply: &answer.builder, answer: answer,
	}
	if op.Start.IsZero() {
		op.Start = time.Now()
	}
	returned := false
	defer func() {
		if !returned && op.Session != nil { // a panic outside the handler
			d.Sessions.release(op.Session, op.Start)
		}
		if !returned {
			answer.account.Close()
		}
	}()
	err := d.run(ctx, op, req)
	returned = true
	now := time.Now()
	if op.Session != nil {
		d.Sessions.release(op.Session, now)
	}
	r := d.finish(ctx, op, now, err)
	answer.arguments.end(op.Memory != nil)
	if op.Memory != nil {
		op.Memory.Release()
	}
	if err == errFailPointClose || op.hangsUp {
		answer.account.Close()
		return Response{Close: true, Took: r.Took}
	}
	if err == nil {
		r.reply = answer
	} else {
		answer.account.Close()
	}
	return r
}

// run checks op's request, and performs it.
func (d *Dispatcher) run(ctx context.Context, op *Op, req *Request) error {
	if err := d.prepare(ctx, op, req); err != nil {
		return err
	}
	if op.Generic.Help {
		op.Reply.String("help", "help for: "+op.Command.Name+" "+op.Command.Help)
		return nil
	}
	return d.perform(ctx, op)
}

// prepare finds the command and checks the request: first the generic arguments, then
// the command's own.
func (d *Dispatcher) prepare(ctx context.Context, op *Op, req *Request) error {
	op.Name, _ = op.Body.First()
	op.DB = req.DB
	if op.DB == "" {
		v := op.Body.Lookup("$db")
		if v.Type != bson.TypeString {
			return mongoerr.New(mongoerr.Code(40571), "OP_MSG requests require a $db argument")
		}
		op.DB = v.Str()
	}
	op.Command = d.Registry.Lookup(op.Name)
	if op.Command == nil {
		d.Metrics.Unknown.Add(1)
		return mongoerr.New(mongoerr.CommandNotFound, "no such command: '%s'", op.Name)
	}
	const login = NoAuth | Redacted // as who has the key of the cluster is a user of local
	if d.WithoutLocal && op.DB == "local" && op.Command.Flags&login != login {
		return mongoerr.New(mongoerr.IllegalOperation, "Can't use 'local' database through mongos")
	}
	if !ValidDatabaseName(op.DB) {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid database name: '%s'", op.DB)
	}
	var err error
	if op.Generic, err = parseGeneric(op.Name, op.Body); err != nil {
		return err
	}
	if err = d.gossip(op); err != nil {
		return err
	}
	if err = op.Generic.apiParameters(op.Command); err != nil {
		return err
	}
	if op.InTransaction() && op.Command.Flags&Transaction == 0 { // whatever else is wrong with it
		if err = op.transaction(); err != nil {
			return err
		}
	}
	if op.Command.Flags&AdminOnly != 0 && op.DB != "admin" {
		return mongoerr.New(mongoerr.Unauthorized, "%s may only be run against the admin database.", op.Command.Name)
	}
	if op.Command.Fields != nil && !op.Generic.Help {
		if op.Args, err = Parse(op, op.Command.Fields); err != nil {
			return err
		}
	}
	if op.NS == "" {
		op.NS = op.DB + ".$cmd"
	}
	if err = op.transaction(); err != nil {
		return err
	}
	if err = op.readConcern(); err != nil {
		return err
	}
	if err = op.writeConcern(ctx); err != nil {
		return err
	}
	op.Session, err = d.Sessions.attach(op)
	return err
}

// begin makes op visible to currentOp and killOp and sets its time limit.
func (d *Dispatcher) begin(parent context.Context, op *Op) (context.Context, context.CancelCauseFunc) {
	op.ID = d.Clients.nextOpID()
	if d.Tracer == nil {
		op.waiting = &waits.Context{Context: parent}
	} else {
		of := op.Generic.TraceParent
		if op.Controlled() && op.Client.Principal() == nil {
			of = "" // who has not logged in has nothing traced
		}
		parent, op.span = d.Tracer.Serve(parent, op.Command.Name, of, op.Command.Flags&Quiet == 0)
		op.waiting = &waits.Context{Context: parent}
		if op.span != nil {
			op.waiting.Waits.Ended = op.span.Waited
		}
	}
	ctx, cancel := context.WithCancelCause(op.waiting)
	op.active.cancel = cancel
	if ms := d.timeLimit(op); ms > 0 {
		op.Deadline = op.Start.Add(time.Duration(ms) * time.Millisecond)
		limited, stop := context.WithDeadlineCause(ctx, op.Deadline, errMaxTime)
		ctx = limited
		cancel = func(cause error) { stop(); op.active.cancel(cause) }
	}
	op.active.ctx = ctx
	op.SetNS(op.NS)
	op.Client.current.Store(op)
	if op.Command.Flags&Quiet == 0 && !op.Client.worked.Load() {
		op.Client.worked.Store(true)
	}
	d.Metrics.begin(op.Command)
	return ctx, cancel
}

// timeLimit returns op's time limit in milliseconds, 0 for none. A getMore uses the
// limit of the command that opened its cursor.
func (d *Dispatcher) timeLimit(op *Op) int64 {
	switch c := op.Command; {
	case c.Kind == KindGetMore:
		return 0
	case op.Generic.HasMaxTimeMS || c.Flags&TakesReadConcern == 0 || c.Flags&Writes != 0 || op.Client.Internal:
		return op.Generic.MaxTimeMS
	}
	return d.DefaultReadTime.Load()
}

// call runs the handler; a panic is an error of this one operation.
func (d *Dispatcher) call(ctx context.Context, op *Op) (err error) {
	defer func() {
		if p := recover(); p != nil {
			op.Memory = nil // other goroutines may still read it
			d.Metrics.AssertRegular.Add(1)
			d.Log.LogAttrs(ctx, slog.LevelError, "Operation panicked", slog.String("c", "COMMAND"), slog.Int("id", logPanic),
				slog.String("command", op.Command.Name), slog.String("ns", op.NS), slog.String("panic", d.loggedText(fmt.Sprint(p))),
				slog.String("stack", string(debug.Stack())))
			err = mongoerr.New(mongoerr.InternalError, "internal error in %s; see the server's log", op.Command.Name)
		}
	}()
	if op.intent != nil {
		return op.intent.Run(ctx, op)
	}
	return op.Command.Run(ctx, op)
}

// Ids of this package's log lines.
const (
	logSlowQuery   = 51803
	logPanic       = 9000001
	logAssertion   = 21962
	logProfileFail = 9000002
	logFailed      = 9000003
	logCursorReap  = 20529
	logForget      = 9000004
)

var (
	errMaxTime  = mongoerr.New(mongoerr.MaxTimeMSExpired, "operation exceeded time limit")
	errKilled   = mongoerr.New(mongoerr.Interrupted, "operation was interrupted")
	errShutdown = mongoerr.New(mongoerr.InterruptedAtShutdown, "interrupted at shutdown")
)

// interruption returns the client's error for the end of ctx, nil while ctx has not ended.
func interruption(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	var e *mongoerr.Error
	switch {
	case errors.As(cause, &e):
		return e
	case errors.Is(cause, context.DeadlineExceeded):
		return errMaxTime
	}
	return errShutdown
}
