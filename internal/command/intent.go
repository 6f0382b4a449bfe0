package command

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

// Intent is a request in a front end's own terms, where a Request has a command as a
// document: a read of one item through the REST protocol of Cosmos DB, say. Do runs it
// on the path that Dispatch takes.
type Intent interface {
	// Authorize returns the error for a client that may not do it. It takes the place
	// of Dispatcher.Authorize, which knows the privileges of MongoDB's users only.
	Authorize(ctx context.Context) error
	// Run does it, and answers the client unless it returns an error. It sets
	// op.Stats, counts documents in opcounters, and leaves the length of its answer
	// in op.ReplyBytes. ctx is as for a Handler.
	Run(ctx context.Context, op *Op) error
	// Shown is the command as logs, profile and currentOp print it. It is called by any
	// goroutine that shows it, during Run and after it.
	Shown() bson.Doc
	// Event is the event for auditors that it leaves: which, "" for none, and what makes its
	// details when it has ended. answered is the code of an error that the client has got
	// although Run returned none.
	Event() (atype string, details func() (param bson.Doc, answered mongoerr.Code))
}

// Do runs an intent as op to its end: registered for currentOp and killOp, within its
// time limit, through the gate where it writes, its panics contained; counted, logged
// and profiled. The error returned has the client's error in its chain (mongoerr.From);
// to answer the client is up to the caller.
//
// REQUIRES: op is new, and has Client, Command, DB and Start, and Collection where it
// works on one. Command need not be registered; only those of its Flags matter that say
// what it does.
func (d *Dispatcher) Do(ctx context.Context, op *Op, intent Intent) error {
	if err := invariant.Require(op.Client != nil && op.Command != nil && !op.Start.IsZero() && op.intent == nil, "command: an intent comes with a new op, its client, command and start"); err != nil {
		return err
	}
	op.Dispatcher, op.intent, op.Name = d, intent, op.Command.Name
	if op.NS == "" {
		coll := op.Collection
		if coll == "" {
			coll = "$cmd"
		}
		op.NS = op.DB + "." + coll
	}
	err := d.perform(ctx, op)
	d.account(ctx, op, noted{took: time.Since(op.Start), reply: op.ReplyBytes, err: err})
	if op.Memory != nil {
		op.Memory.Release()
	}
	return err
}

// perform runs op, whose request has been read and checked, up to its handler: the path
// of every request, from whichever front end.
func (d *Dispatcher) perform(ctx context.Context, op *Op) error {
	ctx, cancel := d.begin(ctx, op)
	defer cancel(nil)
	defer op.Client.current.Store(nil)
	if d.Member != nil && op.Command.Place != WithoutData {
		inside, leave, err := d.Member.EnterUnder(ctx, op.active.cancel)
		if err != nil {
			return err
		}
		defer leave()
		ctx, op.active.ctx = inside, inside
	}
	ended, err := d.authorize(ctx, op)
	if err != nil {
		return err
	}
	if ended != nil {
		defer ended()
	}
	if err := interruption(ctx); err != nil {
		return err
	}
	if d.FailCommand != nil && op.intent == nil {
		if err := d.FailCommand.apply(ctx, op); err != nil {
			return err
		}
	}
	err = d.audited(op, func() error {
		switch {
		case d.Member != nil:
			return d.performOnMember(ctx, op)
		case d.Transact != nil && op.InTransaction() && !op.endsTransaction():
			return d.Transact(ctx, op, d.handle)
		}
		return d.handle(ctx, op)
	})
	if err != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		if cause := interruption(ctx); cause != nil {
			return cause
		}
	}
	return err
}

// performOnMember adds the steps of a replica set's member: it checks the role, waits
// for the read concern, and after the handler for the write concern.
func (d *Dispatcher) performOnMember(ctx context.Context, op *Op) error {
	if err := d.RunsHere(op, op.Command); err != nil {
		return err
	}
	if err := d.awaitRead(ctx, op); err != nil {
		return err
	}
	if d.Admit != nil && op.Command.Flags&(ChecksOwner|ChecksDatabase) != 0 && op.intent == nil {
		if err := d.Admit(ctx, op); err != nil {
			return err
		}
	}
	if op.ReadConcern.Level == "snapshot" && op.Command.Kind != KindGetMore && (!op.InTransaction() || op.ReadConcern.AtClusterTime != 0) {
		if err := d.takeState(ctx, op); err != nil {
			return err
		}
		defer func() {
			if op.State != nil { // no cursor has it
				op.State.Close()
			}
		}()
	}
	err := d.readStale(ctx, op, d.handleOnce(repl.WithOpTime(ctx, &op.opTime), op))
	// A failed command may have written, so its write concern is reported, too.
	if op.Command.Flags&TakesWriteConcern != 0 && (!op.InTransaction() || op.endsTransaction()) && (err == nil || ctx.Err() == nil && !stateChanges[mongoerr.From(err).Code]) {
		d.awaitWrite(ctx, op)
	}
	return err
}

// readStale returns the error of a statement on a shard. If it is a read, and says that the
// collection went while it was read, which a resharding makes it do: the version of the router
// that has sent it is an old one by now, and that error has the router ask again.
func (d *Dispatcher) readStale(ctx context.Context, op *Op, err error) error {
	const owned = ChecksOwner | Writes
	if d.Admit == nil || op.Command.Flags&owned != ChecksOwner || op.intent != nil || op.Generic.Versions == nil || !mongoerr.Is(err, mongoerr.QueryPlanKilled) {
		return err
	}
	return cmp.Or(d.Admit(ctx, op), err)
}

// handleOnce is handle; an op with a txnNumber first takes the session's turn, and a
// statement of a transaction runs in it.
func (d *Dispatcher) handleOnce(ctx context.Context, op *Op) error {
	if op.InTransaction() {
		return d.handleInTransaction(ctx, op)
	}
	if op.Generic.HasTxnNumber {
		done, err := d.beginExecution(ctx, op)
		if err != nil {
			return err
		}
		defer done()
	}
	return d.handle(ctx, op)
}

// handle runs the handler; a write passes the gate, and user writes may be blocked.
func (d *Dispatcher) handle(ctx context.Context, op *Op) error {
	if op.Command.Flags&Writes != 0 {
		pass, err := d.enter(ctx, op)
		if err != nil {
			return err
		}
		defer pass.Leave()
		if op.Command.Flags&ChecksBlock == 0 {
			if err := op.MayWrite(op.DB); err != nil {
				return err
			}
		}
	}
	return d.call(ctx, op)
}

// authorize checks whether op may run, by its front end's rules or by users and roles.
func (d *Dispatcher) authorize(ctx context.Context, op *Op) (ended func(), err error) {
	switch {
	case op.intent != nil:
		return nil, d.checked(op, op.intent.Authorize(ctx))
	case op.Command.Flags&NoAuth != 0 || d.Authorize == nil || op.Client.Internal:
		return nil, nil
	}
	ended, err = d.Authorize(ctx, op)
	if checked := d.checked(op, err); checked != nil {
		if err == nil && ended != nil {
			ended()
		}
		return nil, checked
	}
	return ended, nil
}

// enter passes op, a write, through the gate, unless this member accepts no writes.
func (d *Dispatcher) enter(ctx context.Context, op *Op) (Pass, error) {
	if wait := d.Transactions.wait(); op.Transaction != nil && wait >= 0 {
		soon, end := context.WithTimeoutCause(ctx, wait, catalog.LockTimeout("the server's lock for writes", wait))
		defer end()
		ctx = soon
	}
	op.SetWaitingForLock(true)
	defer op.SetWaitingForLock(false)
	if op.InTransaction() && !op.Generic.HasStart {
		if err := d.TakesWrites(); err != nil {
			return Pass{}, err
		}
		return d.Gate.EnterWithin(ctx)
	}
	return d.Enter(ctx, op.DB)
}

// Enter passes the gate for a write to a database, unless this member takes no writes;
// Leave of the Pass must follow. Whether user writes are blocked is checked after it.
// Errors: those of TakesWrites, and the cause of ctx's end.
func (d *Dispatcher) Enter(ctx context.Context, db string) (Pass, error) {
	if db != localDB {
		if err := d.TakesWrites(); err != nil {
			return Pass{}, err
		}
	}
	return d.Gate.Enter(ctx)
}

// TakesWrites returns nil if this member accepts writes, else the error for a client:
// 10107 on one that is not primary.
func (d *Dispatcher) TakesWrites() error {
	if d.Writable == nil {
		return nil
	}
	return d.Writable()
}

// localDB is the database that is not replicated.
const localDB = "local"
