package router

import (
	"context"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// transactionCommands returns the commands that end transactions. (Manual: database commands
// commitTransaction, abortTransaction.)
func (r *Router) transactionCommands() []*command.Command {
	const flags = command.AdminOnly | command.TakesWriteConcern | command.Transaction | command.APIv1
	return []*command.Command{
		{Name: "commitTransaction", Flags: flags, Help: "Commits a transaction", Run: r.runCommit},
		{Name: "abortTransaction", Flags: flags, Help: "Aborts a transaction", Run: r.runAbort},
	}
}

// runCommit commits the transaction of op; if this router does not know it, its outcome is
// asked of the shard in the recoveryToken. A commit that is sent again is answered as the
// first was.
func (r *Router) runCommit(ctx context.Context, op *command.Op) error {
	if !op.InTransaction() {
		return mongoerr.New(mongoerr.CommandFailed, "commitTransaction must be run within a transaction")
	}
	tx, err := r.transactions.known(ctx, op)
	if err != nil {
		return err
	}
	if tx == nil {
		return r.recoverCommit(ctx, op)
	}
	defer tx.leave()
	if tx.progress == aborted {
		return tx.over()
	}
	return tx.commit(ctx, op)
}

// recoveryShard returns the shard of op's recoveryToken, "" if the transaction has not
// written. Errors: 50940 without a token.
func recoveryShard(op *command.Op) (string, error) {
	v := op.Body.Lookup("recoveryToken")
	if v.Type != bson.TypeDocument {
		return "", mongoerr.New(mongoerr.Code(50940), "cannot recover the transaction decision without a recoveryToken")
	}
	if id := v.Doc().Lookup("recoveryShardId"); id.Type == bson.TypeString {
		return id.Str(), nil
	}
	return "", nil
}

// recoverCommit asks a shard for the outcome of a transaction that this router does not
// know. Errors: 251 if it was aborted, which it is if nobody commits it.
func (r *Router) recoverCommit(ctx context.Context, op *command.Op) error {
	shard, err := recoveryShard(op)
	if err != nil {
		return err
	}
	if shard == "" {
		return mongoerr.New(mongoerr.NoSuchTransaction, "Transaction recoveryToken is empty, meaning the transaction only performed read operations and can be safely retried")
	}
	tx := &transaction{router: r, session: op.Session.ID, number: op.Generic.TxnNumber, lsid: op.Generic.LSID, begun: time.Now()}
	k := &r.transactions.stats.kinds[recoverWithToken]
	k.initiated.Add(1)
	a, err := tx.send(ctx, shard, tx.coordinate(op, nil))
	if err != nil {
		return err
	}
	k.succeeded(tx.begun)
	r.takeReply(op, a)
	return nil
}

// takeReply returns a shard's reply to the client, with its time.
func (r *Router) takeReply(op *command.Op, a client.Answer) {
	observe(op, a)
	if t := a.Reply.Lookup("told"); t.Type == bson.TypeTimestamp { // of the last participant's commit
		r.clock.Observe(t.Timestamp())
		op.OperationTime.Observe(t.Timestamp())
		a.Reply = withoutFields(a.Reply, "told")
	}
	passReply(op, a.Reply)
}

// coordinate is the command by which a shard coordinates the commit.
func (tx *transaction) coordinate(op *command.Op, participants []string) bson.Doc {
	b := new(bson.Builder).Int32("coordinateCommitTransaction", 1).OpenArray("participants")
	for i, name := range participants {
		b.OpenDoc(bson.Index(i)).String("shardId", name).Close()
	}
	b.Close().OpenDoc("transaction").Doc("lsid", tx.lsid).Int64("txnNumber", tx.number).Close()
	appendConcern(b, op)
	return b.Finish()
}

// appendEnd appends to a command that ends the transaction what the client's has: its write
// concern and its time limit.
func (tx *transaction) appendEnd(b *bson.Builder, op *command.Op) {
	appendConcern(b, op)
	tx.appendTo(b)
}

func appendConcern(b *bson.Builder, op *command.Op) {
	for name, v := range op.Body.All() {
		switch name {
		case "writeConcern", "maxTimeMS", "comment":
			b.Value(name, v)
		}
	}
}

// commit commits by what the participants have written. The caller has the turn.
func (tx *transaction) commit(ctx context.Context, op *command.Op) error {
	t := &tx.router.transactions
	writers, readers := tx.split()
	first := tx.progress == inProgress
	if first {
		which := twoPhaseCommit
		switch {
		case len(writers)+len(readers) == 0:
			which = noShards
		case len(writers)+len(readers) == 1:
			which = singleShard
		case len(writers) == 0:
			which = readOnly
		case len(writers) == 1:
			which = singleWriteShard
		}
		tx.kind = &t.stats.kinds[which]
		tx.kind.initiated.Add(1)
		t.stats.atCommit.Add(int64(len(writers) + len(readers)))
		tx.router.Dispatcher.Cursors.KillTransaction(tx.session, tx.number)
	}
	begun := time.Now()
	if tx.progress != committed {
		tx.end(committing)
	}
	if !tx.readersDone || len(writers) == 0 {
		if err := tx.commitReaders(ctx, op, readers, len(writers) > 0); err != nil {
			return err
		}
	}
	var a client.Answer
	var err error
	switch len(writers) {
	case 0:
	case 1:
		b := new(bson.Builder).Int32("commitTransaction", 1)
		tx.appendEnd(b, op)
		a, err = tx.send(ctx, writers[0], b.Finish())
	default:
		a, err = tx.send(ctx, writers[0], tx.coordinate(op, writers))
	}
	if err != nil {
		if tx.progress != committed && isDefinite(err) {
			tx.end(aborted)
		}
		return err
	}
	if tx.progress != committed {
		tx.kind.succeeded(begun)
		tx.end(committed)
	}
	if a.Reply != nil {
		tx.router.takeReply(op, a)
	}
	return nil
}

// isDefinite reports whether an error of a commit says that the transaction is aborted, and
// not that the outcome is not known.
func isDefinite(err error) bool {
	e := mongoerr.From(err)
	return mongoerr.Is(err, mongoerr.NoSuchTransaction, mongoerr.WriteConflict, mongoerr.DuplicateKey, mongoerr.TransactionTooOld, mongoerr.OperationNotSupportedInTransaction) &&
		!command.MayRetry(e.Code)
}

// commitReaders commits the participants that have only read. Where others have written, an
// error aborts the transaction: nothing was decided yet.
func (tx *transaction) commitReaders(ctx context.Context, op *command.Op, readers []string, written bool) error {
	b := new(bson.Builder).Int32("commitTransaction", 1)
	tx.appendEnd(b, op)
	body := b.Finish()
	done := tx.readersDone
	answers, err := each(readers, func(name string) (client.Answer, error) {
		a, err := tx.send(ctx, name, body)
		if done && mongoerr.Is(err, mongoerr.NoSuchTransaction) { // nothing is remembered of it
			err = nil
		}
		return a, err
	})
	switch {
	case err != nil && written:
		tx.abort(ctx)
		return err
	case err != nil:
		if tx.progress != committed && isDefinite(err) {
			tx.end(aborted)
		}
		return err
	}
	tx.readersDone = true
	for i, a := range answers {
		observe(op, a)
		if !written && unmet(a) && !slices.ContainsFunc(answers[:i], unmet) {
			op.Reply.Value("writeConcernError", a.Reply.Lookup("writeConcernError"))
		}
	}
	return nil
}

// unmet reports whether a write concern was not met.
func unmet(a client.Answer) bool {
	return a.Reply != nil && a.Reply.Has("writeConcernError")
}

// runAbort aborts the transaction of op; if this router does not know it, the participant in
// the recoveryToken. Errors: 251 if it was aborted, 256 if it is being or was committed.
func (r *Router) runAbort(ctx context.Context, op *command.Op) error {
	if !op.InTransaction() {
		return mongoerr.New(mongoerr.CommandFailed, "abortTransaction must be run within a transaction")
	}
	tx, err := r.transactions.known(ctx, op)
	if err != nil {
		return err
	}
	if tx != nil {
		defer tx.leave()
		if tx.progress != inProgress {
			return tx.over()
		}
		tx.abort(ctx)
		return nil
	}
	shard, err := recoveryShard(op)
	if err != nil || shard == "" {
		return mongoerr.New(mongoerr.NoSuchTransaction, "no known command has been sent by this router for this transaction")
	}
	tx = &transaction{router: r, session: op.Session.ID, number: op.Generic.TxnNumber, lsid: op.Generic.LSID}
	b := new(bson.Builder).Int32("abortTransaction", 1)
	tx.appendEnd(b, op)
	a, err := tx.send(ctx, shard, b.Finish())
	if err != nil {
		return err
	}
	r.takeReply(op, a)
	return nil
}
