package node

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

// attempt is one attempt to execute the statements of a command, which a client may
// send again: what an earlier attempt has executed is answered from its record.
// (Manual: "Retryable Writes".)
type attempt struct {
	x       *catalog.Execution // nil if the command is not retryable
	op      *command.Op
	numbers []int32 // stmtIds, nil for none
	first   int32   // the number of the first statement, where numbers is nil
	retried []int32 // statements that were answered from a record
}

// newAttempt reads the numbers of a command's statements: stmtIds, or stmtId for the
// first, or else they are counted from 0.
func newAttempt(op *command.Op, statements int) (attempt, error) {
	a := attempt{x: op.Execution, op: op}
	if op.Args.Has("stmtIds") {
		a.numbers = make([]int32, 0, statements)
		for v := range op.Args.Value("stmtIds").Doc().Values() {
			a.numbers = append(a.numbers, v.Int32())
		}
		if n := len(a.numbers); n != statements {
			return a, mongoerr.New(mongoerr.InvalidLength, "Number of statement ids must match the number of batch entries. Got %d statement ids but %d operations. "+
				"Statement ids: { stmtIds: %s }", n, statements, op.Args.Value("stmtIds"))
		}
		if op.Args.Has("stmtId") {
			return a, mongoerr.New(mongoerr.InvalidOptions, "May not specify both stmtId and stmtIds in write command. Got { stmtId: %d, stmtIds: %s }",
				op.Args.Int("stmtId"), op.Args.Value("stmtIds"))
		}
	}
	a.first = int32(op.Args.Int("stmtId"))
	return a, nil
}

// number returns the number of the i-th statement.
func (a *attempt) number(i int) int32 {
	if a.numbers == nil {
		return a.first + int32(i)
	}
	return a.numbers[i]
}

// executed returns what an earlier attempt did for the i-th statement, if one executed it;
// otherwise that statement is executed next, unless there is an error. The record is an
// answer only if it is of one of the kinds; if none are given, all are.
func (a *attempt) executed(i int, kinds ...retryable.Kind) (run retryable.Run, ok bool, err error) {
	if a.x == nil {
		return run, false, nil
	}
	number := a.number(i)
	if run, ok, err = a.x.Executed(number); ok && len(kinds) > 0 && !slices.Contains(kinds, run.Kind) {
		return run, true, nil // not an answer to this one
	}
	if err != nil {
		return run, false, err
	}
	if ok {
		m := &a.op.Dispatcher.Metrics
		if m.RetriedStatements.Add(1); len(a.retried) == 0 {
			m.RetriedCommands.Add(1)
		}
		a.retried = append(a.retried, number)
		return run, true, nil
	}
	a.x.Execute(number)
	return run, false, a.op.FailStatement()
}

// has reports whether an earlier attempt may have executed the i-th statement.
func (a *attempt) has(i int) bool {
	if a.x == nil {
		return false
	}
	_, ok, err := a.x.Executed(a.number(i))
	return ok || err != nil
}

// did records what the i-th statement did.
func (a *attempt) did(kind retryable.Kind, i int, doc bson.Doc) {
	if a.x != nil {
		a.x.Did(kind, a.number(i), doc)
	}
}

// updated notes what an update did for the i-th statement: one that has changed
// nothing can be executed again.
func (a *attempt) updated(i int, out *exec.Written) {
	switch {
	case a.x == nil:
	case !out.Upserted.IsMissing():
		a.did(retryable.Upserted, i, new(bson.Builder).Value("_id", out.Upserted).Finish())
	case out.Modified > 0:
		a.did(retryable.Updated, i, nil)
	}
}

// deleted records what a delete did for the i-th statement.
func (a *attempt) deleted(i int, out *exec.Written) {
	if out.Deleted > 0 {
		a.did(retryable.Deleted, i, nil)
	}
}

// overtaken returns an error if an earlier attempt has executed the i-th statement while this one
// found nothing to do. Errors: 13388.
func (a *attempt) overtaken(i int) error {
	if a.x == nil {
		return nil
	}
	yes, err := a.x.Overtaken(a.number(i))
	if err == nil && yes {
		err = catalog.ErrOvertaken
	}
	return err
}

// refuseMulti refuses a statement for many documents, as it would not be known which
// of them an earlier attempt has written.
func (a *attempt) refuseMulti(multi bool, option string) error {
	if a.x == nil || !multi {
		return nil
	}
	return mongoerr.New(mongoerr.InvalidOptions, "Cannot use (or request) retryable writes with %s", option)
}

// write writes which statements were answered from a record.
func (a *attempt) write(b *bson.Builder) {
	if len(a.retried) == 0 {
		return
	}
	b.OpenArray("retriedStmtIds")
	for i, n := range a.retried {
		b.Int32(bson.Index(i), n)
	}
	b.Close()
}

// updateBefore returns what an earlier attempt did for the i-th statement, an
// update, as Writer reports it; false if it has to be executed now. Errors:
// 40638 if that attempt executed something else.
func (a *attempt) updateBefore(i int) (out *exec.Written, before bool, err error) {
	run, ok, err := a.executed(i, retryable.Updated, retryable.Upserted)
	if !ok || err != nil {
		return nil, false, err
	}
	out, err = updatedBefore(&run)
	return out, true, err
}

// updatedBefore returns what an update did, as Writer reports it. Errors: 40638 where
// it was something else.
func updatedBefore(run *retryable.Run) (*exec.Written, error) {
	switch run.Kind {
	case retryable.Updated:
		return &exec.Written{Matched: 1, Modified: 1}, nil
	case retryable.Upserted:
		return &exec.Written{Upserted: run.Doc.Lookup("_id")}, nil
	}
	return nil, otherBefore(40638, "update", run)
}

// otherBefore refuses a statement whose number an earlier attempt has executed as
// something else.
func otherBefore(code mongoerr.Code, name string, run *retryable.Run) error {
	kind := map[retryable.Kind]string{retryable.Inserted: "i", retryable.Upserted: "i", retryable.Deleted: "d"}[run.Kind]
	if kind == "" {
		kind = "u"
	}
	return mongoerr.New(code, "%s retry request is not compatible with previous write in the transaction of type: %s", name, kind)
}

// endsAttempt reports whether a statement's error ends the whole command: the operation was
// interrupted, or this member is no longer primary, and the client tries again elsewhere; or
// another write has overtaken the transaction.
func endsAttempt(err error) bool {
	switch mongoerr.From(err).Code {
	case mongoerr.NotWritablePrimary, mongoerr.NotPrimaryNoSecondaryOk, mongoerr.NotPrimaryOrSecondary, mongoerr.PrimarySteppedDown,
		mongoerr.InterruptedDueToReplStateChange, mongoerr.InterruptedAtShutdown, mongoerr.ShutdownInProgress, mongoerr.WriteConflict:
		return true
	}
	return false
}

// endsBatch reports whether no statement may follow one that has failed: they are ordered, or
// the router's route is stale, and it sends all from that one on again.
func endsBatch(ordered bool, err error) bool {
	return ordered || mongoerr.Is(err, mongoerr.StaleConfig, mongoerr.StaleDbVersion)
}

// fails returns the error that ends a command of which a statement has failed; nil
// if it belongs to the statements' errors. A transaction is aborted by either, unless the
// router is to do the rest of the statement.
func fails(ctx context.Context, op *command.Op, err error) error {
	if !mongoerr.Is(err, mongoerr.WouldChangeOwningShard) {
		op.FailTransaction()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case endsAttempt(err):
		return err
	}
	return nil
}
