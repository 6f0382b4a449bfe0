package router

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxOwn bounds the attempts of a transaction of the router's own.
const maxOwn = 100

// ownIdle is how long a shard waits for the next statement of such a transaction: with a router
// that is gone its locks go, and the client's statement is executed through another one.
const ownIdle = 3 * time.Second

// ownSessions are the sessions of the router's own transactions: as many as have run at one
// time.
type ownSessions struct {
	mu   sync.Mutex
	free []*ownSession
}

type ownSession struct {
	id     bson.UUID
	number int64
}

// take returns a session that nobody uses, with a new transaction number.
func (o *ownSessions) take() *ownSession {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.free); n > 0 {
		s := o.free[n-1]
		o.free = o.free[:n-1]
		return s
	}
	return &ownSession{id: bson.NewUUID()}
}

func (o *ownSessions) give(s *ownSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.free = append(o.free, s)
}

// own is a client's statement that is executed in a transaction of the router's own, as it
// moves its document to another shard.
type own struct {
	rt        *route
	from      string // the shard that has the document
	statement int32  // its number in the client's session
	// execute has the shard execute the statement, which it refuses with error 283.
	execute func(*transaction) error
	// move does what the error says; the reply, nil for an update, is what a later attempt is
	// answered.
	move func(*transaction, *mongoerr.Error) (reply bson.Doc, err error)
}

// ownTransaction executes a retryable statement that moves its document to another shard, by a
// transaction over both that also stores what the statement has come to: so it is executed
// once, whoever sends it again to whatever router. moved is false where the document does not
// change its shard any more, or an earlier attempt has moved it: then the statement is sent
// again. Errors: those of shards; that of a commit whose outcome is not known is retryable.
func (r *Router) ownTransaction(ctx context.Context, op *command.Op, o own) (moved bool, err error) {
	s := r.ownSessions.take()
	defer r.ownSessions.give(s)
	for try := range maxOwn {
		s.number++
		moved, err = r.tryOwn(ctx, op, s, o)
		if err == nil || isStale(err) || !passes(err) {
			return moved, err
		}
		if client.Sleep(ctx, min(time.Millisecond<<min(try, 10), maxStalePause)) != nil {
			return false, err
		}
	}
	return false, err
}

// passes reports whether a transaction of the router's own that has failed is tried again: it
// was aborted by what others do, or a shard fails over.
func passes(err error) bool {
	return mongoerr.Is(err, mongoerr.WriteConflict, mongoerr.LockTimeout, mongoerr.SnapshotUnavailable, mongoerr.NoSuchTransaction, mongoerr.PreparedTransactionInProgress)
}

// tryOwn is one attempt of ownTransaction.
func (r *Router) tryOwn(ctx context.Context, op *command.Op, s *ownSession, o own) (moved bool, err error) {
	t := &r.transactions
	tx := &transaction{router: r, number: s.number, turn: make(chan struct{}, 1), lsid: new(bson.Builder).Binary("id", 4, s.id[:]).Finish(), begun: time.Now(), idle: ownIdle}
	tx.session.ID = s.id
	tx.timer = time.AfterFunc(t.lifetime(), func() {})
	defer tx.timer.Stop()
	t.stats.started.Add(1)
	t.stats.open.Add(1)
	defer func() {
		if tx.progress == inProgress {
			tx.abort(ctx)
		}
	}()
	err = o.execute(tx)
	if !mongoerr.Is(err, mongoerr.WouldChangeOwningShard) {
		return false, err
	}
	e := mongoerr.From(err)
	if _, stays := o.rt.staysOn(o.from, e); stays {
		return false, nil
	}
	reply, err := o.move(tx, e)
	if err != nil {
		return false, err
	}
	b := new(bson.Builder).Int32("_shardsvrExecutedFor", 1).OpenDoc("statement")
	b.Doc("lsid", op.Session.ID.Document()).Int64("txnNumber", op.Generic.TxnNumber).Int32("stmtId", o.statement).Close()
	if reply != nil {
		b.Doc("reply", reply)
	}
	body := b.Finish()
	// A statement by _id goes to all shards: neither the old nor the new owner executes it again.
	writers, _ := tx.split()
	_, err = each(writers, func(name string) (client.Answer, error) {
		return r.ask(ctx, op, question{shard: name, db: o.rt.db, body: body, within: tx})
	})
	if mongoerr.Is(err, mongoerr.TransactionCommitted) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, tx.commit(ctx, op)
}
