package router

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// abortTime bounds how long an error waits until the participants have aborted. What is not
// reached by then ends after transactionLifetimeLimitSeconds.
const abortTime = 4 * time.Second // less than operations have to end when the router stops

// progress is how far a transaction is, as a router knows it.
type progress uint8

const (
	inProgress progress = iota
	// committing: a commit has been sent, and its outcome is not known. Only shards can say.
	committing
	committed
	aborted
)

// transactions has the newest transaction of each session of the router's clients. It is
// bounded by the number of sessions, and a transaction that has ended is forgotten after
// transactionLifetimeLimitSeconds: then its outcome is asked of the shard that the client's
// recoveryToken names. (docs/rfcs/0029-transactions-over-shards.md)
type transactions struct {
	router *Router
	mu     sync.RWMutex
	all    map[command.SessionID]*transaction
	closed bool
	stats  transactionStats
}

// transaction is a transaction of a client. Its statements, and what ends it, have its turn
// one after the other.
type transaction struct {
	router  *Router
	session command.SessionID
	number  int64
	turn    chan struct{} // holds one value while an operation of it runs
	timer   *time.Timer   // ends it, and then forgets it

	// The holder of turn has these.
	progress   progress
	lsid       bson.Doc
	concern    command.ReadConcern
	statements int
	// chosen says that the router has chosen the time that all participants read at, with read
	// concern snapshot.
	chosen bool
	// idle is how long its participants wait for a next statement; 0: as long as they live.
	idle time.Duration
	// readersDone says that the participants that have only read are committed.
	readersDone bool
	kind        *commitKind // how it is being committed
	begun       time.Time

	mu           sync.Mutex // a statement asks several shards in parallel
	participants []*participant
	recovery     string // the first that wrote: it coordinates the commit; "" for none
}

// participant is a shard that statements of a transaction were sent to.
type participant struct {
	shard string
	turn  chan struct{} // one request at a time: the first one starts the transaction there
	// asked says that the shard may know of the transaction.
	asked, wrote bool
	unanswered   bool // a request's outcome is not known
}

// of returns the transaction of which op is a statement; nil if it is none.
func (t *transactions) of(op *command.Op) *transaction {
	if !op.InTransaction() || op.Session == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if tx := t.all[op.Session.ID]; tx != nil && tx.number == op.Generic.TxnNumber {
		return tx
	}
	return nil
}

// take takes the turn of the transaction of which op is a statement, and starts it if op is
// the first one. Errors: 117, 225, 251, 256, the cause of ctx's end.
func (t *transactions) take(ctx context.Context, op *command.Op) (*transaction, error) {
	if op.Generic.HasStart {
		return t.start(op)
	}
	tx, err := t.known(ctx, op)
	switch {
	case err != nil:
		return nil, err
	case tx == nil:
		return nil, mongoerr.New(mongoerr.NoSuchTransaction, "cannot continue txnId %d for session %s with txnRetryCounter 0: this router does not know it", op.Generic.TxnNumber, op.Session.ID)
	case tx.progress != inProgress:
		defer tx.leave()
		return nil, tx.over()
	}
	return tx, nil
}

// known takes the turn of op's transaction, if this router knows it; else it returns nil.
// Errors: 225, the cause of ctx's end.
func (t *transactions) known(ctx context.Context, op *command.Op) (*transaction, error) {
	t.mu.RLock()
	tx := t.all[op.Session.ID]
	t.mu.RUnlock()
	switch {
	case tx == nil || op.Generic.TxnNumber > tx.number:
		return nil, nil
	case op.Generic.TxnNumber < tx.number:
		return nil, tooOld(op, tx)
	}
	select {
	case tx.turn <- struct{}{}:
		return tx, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func tooOld(op *command.Op, newest *transaction) error {
	return mongoerr.New(mongoerr.TransactionTooOld, "txnNumber %d is less than last txnNumber %d seen in session %s", op.Generic.TxnNumber, newest.number, op.Session.ID)
}

// start begins op's transaction, whose turn the caller then has. An older one of the session
// is aborted.
func (t *transactions) start(op *command.Op) (*transaction, error) {
	tx := &transaction{router: t.router, session: op.Session.ID, number: op.Generic.TxnNumber, turn: make(chan struct{}, 1), lsid: op.Generic.LSID.Clone(), concern: op.ReadConcern, begun: time.Now()}
	tx.turn <- struct{}{}
	t.mu.Lock()
	defer t.mu.Unlock()
	older := t.all[tx.session]
	switch {
	case t.closed:
		return nil, mongoerr.New(mongoerr.ShutdownInProgress, "the router shuts down")
	case older == nil:
	case tx.number < older.number:
		return nil, tooOld(op, older)
	case tx.number == older.number:
		return nil, mongoerr.New(mongoerr.ConflictingOperationInProgress, "txnNumber %d for session %s already started", tx.number, tx.session)
	default:
		older.replaced()
	}
	if t.all == nil {
		t.all = map[command.SessionID]*transaction{}
	}
	tx.timer = time.AfterFunc(t.lifetime(), tx.expire)
	t.all[tx.session] = tx
	t.stats.started.Add(1)
	t.stats.open.Add(1)
	return tx, nil
}

func (t *transactions) lifetime() time.Duration { return t.router.Dispatcher.Transactions.Lifetime() }

// abandon aborts the transaction of a session that was ended or killed.
func (t *transactions) abandon(id command.SessionID) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if tx := t.all[id]; tx != nil {
		tx.timer.Reset(0)
	}
}

// close stops all timers. The participants' own end the transactions.
func (t *transactions) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, tx := range t.all {
		tx.timer.Stop()
	}
	t.all = nil
}

func (tx *transaction) leave() { <-tx.turn }

// replaced is called when the session has begun another transaction.
func (tx *transaction) replaced() {
	select {
	case tx.turn <- struct{}{}:
		if tx.progress != inProgress {
			tx.timer.Stop()
			tx.leave()
			return
		}
		tx.leave()
	default:
	}
	tx.timer.Reset(0)
}

// expire aborts a transaction that is too old, or forgets one that has ended.
func (tx *transaction) expire() {
	tx.turn <- struct{}{}
	defer tx.leave()
	if tx.progress == inProgress {
		tx.abort(context.Background())
		return
	}
	t := &tx.router.transactions
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[tx.session] == tx {
		delete(t.all, tx.session)
	}
}

// over is the error for a transaction that has ended.
func (tx *transaction) over() error {
	switch tx.progress {
	case aborted:
		return mongoerr.New(mongoerr.NoSuchTransaction, "Transaction with { txnNumber: %d } has been aborted.", tx.number)
	case committing:
		return mongoerr.New(mongoerr.TransactionCommitted, "Transaction with { txnNumber: %d } is being committed.", tx.number)
	}
	return mongoerr.New(mongoerr.TransactionCommitted, "Transaction with { txnNumber: %d } has been committed.", tx.number)
}

// end notes the outcome of a transaction.
func (tx *transaction) end(as progress) {
	t := &tx.router.transactions
	if tx.progress == inProgress {
		t.stats.open.Add(-1)
	}
	if tx.progress != as {
		switch as {
		case committed:
			t.stats.committed.Add(1)
		case aborted:
			t.stats.aborted.Add(1)
		}
	}
	tx.progress = as
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.closed {
		tx.timer.Reset(t.lifetime())
	}
}

// transact runs a statement of a transaction. An error aborts the transaction, but for one
// that says that the first statement had a stale route, or a time that is too old: then it is
// done again. It is Dispatcher.Transact.
func (r *Router) transact(ctx context.Context, op *command.Op, run command.Handler) error {
	tx, err := r.transactions.take(ctx, op)
	if err != nil {
		return err
	}
	defer tx.leave()
	if err := tx.checkRead(op); err != nil {
		tx.abort(ctx)
		return err
	}
	t := &r.transactions
	t.stats.active.Add(1)
	defer t.stats.active.Add(-1)
	tx.statements++
	for try := 1; ; try++ {
		tx.chooseTime(ctx)
		err = run(ctx, op)
		pause := tx.again(err, try)
		if pause == 0 || !tx.restart(ctx) || client.Sleep(ctx, pause) != nil {
			break
		}
	}
	if err != nil || op.Failed() {
		tx.abort(ctx)
		return err
	}
	tx.appendToken(op.Reply)
	return nil
}

// again returns for how long to pause before the first statement of all is done again, after
// its try with that number: its route was stale, or a shard does not have the state of the
// chosen time. It is 0 if the error stays.
func (tx *transaction) again(err error, try int) time.Duration {
	switch {
	case tx.statements > 1:
	case isStale(err) && try < maxStale:
		return min(time.Millisecond<<try, maxStalePause)
	case tx.chosen && mongoerr.Is(err, mongoerr.SnapshotTooOld, mongoerr.SnapshotUnavailable) && try < maxSnapshots:
		return min(time.Duration(try)*100*time.Microsecond, 5*time.Millisecond)
	}
	return 0
}

// checkRead rejects a read preference that is not primary. Errors: 72.
func (tx *transaction) checkRead(op *command.Op) error {
	if op.Generic.SecondaryOK {
		return mongoerr.New(mongoerr.InvalidOptions, "Read preference in a transaction must be primary")
	}
	return nil
}

// chooseTime chooses the time at which all participants read, with read concern snapshot,
// unless the client gave one.
func (tx *transaction) chooseTime(ctx context.Context) {
	if tx.concern.Level != "snapshot" || tx.statements > 1 {
		return
	}
	tx.router.expectSnapshots(ctx)
	if tx.concern.AtClusterTime != 0 && !tx.chosen {
		return
	}
	tx.chosen = true
	tx.concern.AtClusterTime = max(tx.router.clock.Now(), tx.concern.AfterClusterTime)
}

// staleInTransaction reports whether a statement of a transaction failed because of a stale
// route, which is then forgotten. It is not the statement alone that is done again.
func (r *Router) staleInTransaction(op *command.Op, rt *route, err error) bool {
	if op == nil || !op.InTransaction() || !isStale(err) {
		return false
	}
	other := staleNamespace(err)
	r.routes.forget(func(ns string) bool { return ns == rt.ns || ns == other })
	return true
}

// participant returns the participant of a shard, which is a new one if it was not met yet.
func (tx *transaction) participant(shard string) *participant {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for _, p := range tx.participants {
		if p.shard == shard {
			return p
		}
	}
	p := &participant{shard: shard, turn: make(chan struct{}, 1)}
	tx.participants = append(tx.participants, p)
	tx.router.transactions.stats.contacted.Add(1)
	return p
}

// ask sends a statement to a shard as a part of the transaction, and notes whether it has
// written there. It is not sent again after an error that leaves open whether it was
// executed.
func (tx *transaction) ask(ctx context.Context, set *client.Set, shard string, c client.Call) (client.Answer, error) {
	p := tx.participant(shard)
	leave, err := inTurn(ctx, p.turn)
	if err != nil {
		return client.Answer{}, err
	}
	defer leave()
	first := !p.asked
	c.Body, c.Read, c.Idempotent = tx.body(c.Body, first), client.ReadPreference{}, false
	p.asked = true
	tx.router.transactions.stats.requests.Add(1)
	a, err := set.Run(ctx, c)
	if a.Reply == nil {
		p.unanswered = true
	} else if err == nil && hasWritten(c.Body, a.Reply) {
		tx.note(p)
	}
	if first && resolvedView(err) != nil { // it is refused before anything begins
		p.asked = false
	}
	return a, err
}

// note notes that a participant has written.
func (tx *transaction) note(p *participant) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	p.wrote = true
	if tx.recovery == "" {
		tx.recovery = p.shard
	}
}

// hasWritten reports whether a statement has written, by what its shard has answered.
func hasWritten(statement, reply bson.Doc) bool {
	if v := reply.Lookup("readOnly"); v.Type == bson.TypeBool {
		return !v.Bool()
	}
	switch name, _ := statement.First(); name {
	case "insert", "update", "delete":
		return sizeOf(reply.Lookup("n"), 0) > 0
	case "findAndModify":
		return sizeOf(document(reply.Lookup("lastErrorObject")).Lookup("n"), 0) > 0
	case "create", "createIndexes":
		return true
	}
	return false
}

// ofTransactions has the arguments that say how a statement belongs to a transaction, and
// those that one does not have.
var ofTransactions = map[string]bool{
	"lsid": true, "txnNumber": true, "autocommit": true, "startTransaction": true, "readConcern": true, "writeConcern": true, "stmtId": true, "stmtIds": true,
}

// body returns a statement as a part of the transaction.
func (tx *transaction) body(statement bson.Doc, first bool) bson.Doc {
	b := new(bson.Builder)
	for name, v := range statement.All() {
		if !ofTransactions[name] {
			b.Value(name, v)
		}
	}
	tx.appendTo(b)
	if first {
		b.Bool("startTransaction", true)
		if tx.idle > 0 {
			b.Int64("transactionIdleMS", tx.idle.Milliseconds())
		}
		if c := &tx.concern; c.Level != "" || c.AfterClusterTime != 0 {
			b.OpenDoc("readConcern")
			if c.Level != "" {
				b.String("level", c.Level)
			}
			if c.AtClusterTime != 0 {
				b.Timestamp("atClusterTime", c.AtClusterTime)
			} else if c.AfterClusterTime != 0 {
				b.Timestamp("afterClusterTime", c.AfterClusterTime)
			}
			b.Close()
		}
	}
	return b.Finish()
}

// appendTo appends what names the transaction.
func (tx *transaction) appendTo(b *bson.Builder) {
	b.Doc("lsid", tx.lsid).Int64("txnNumber", tx.number).Bool("autocommit", false)
}

// split returns the shards that have written, the first one of which is asked for the
// outcome, and the others.
func (tx *transaction) split() (writers, readers []string) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for _, p := range tx.participants {
		switch {
		case !p.asked:
		case p.shard == tx.recovery:
			writers = slices.Insert(writers, 0, p.shard)
		case p.wrote:
			writers = append(writers, p.shard)
		default:
			readers = append(readers, p.shard)
		}
	}
	return writers, readers
}

// appendToken appends the recoveryToken: by it another router asks the shard that knows the
// outcome.
func (tx *transaction) appendToken(b *bson.Builder) {
	b.OpenDoc("recoveryToken")
	if tx.recovery != "" {
		b.String("recoveryShardId", tx.recovery)
	}
	b.Close()
}

// abort has all participants abort, and notes that the transaction has ended. It waits for
// them, at most abortTime.
func (tx *transaction) abort(ctx context.Context) {
	tx.end(aborted)
	tx.router.Dispatcher.Cursors.KillTransaction(tx.session, tx.number)
	_ = tx.abortParticipants(ctx, true) // else it ends there by itself
}

// restart has all participants abort, and forgets them: the first statement is done again
// with the same number. It is false if an answer has not arrived: then a request may still
// be under way, and would meet the second attempt.
func (tx *transaction) restart(ctx context.Context) bool {
	tx.mu.Lock()
	unanswered := slices.ContainsFunc(tx.participants, func(p *participant) bool { return p.unanswered })
	tx.mu.Unlock()
	tx.router.Dispatcher.Cursors.KillTransaction(tx.session, tx.number)
	if err := tx.abortParticipants(ctx, false); unanswered || err != nil {
		return false
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.participants, tx.recovery = nil, ""
	return true
}

// abortParticipants has all participants abort. again says that who does not answer is asked
// again. It returns the first error that is not a definite answer.
func (tx *transaction) abortParticipants(ctx context.Context, again bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	writers, readers := tx.split()
	b := new(bson.Builder).Int32("abortTransaction", 1)
	tx.appendTo(b)
	body := b.Finish()
	_, err := each(slices.Concat(writers, readers), func(name string) (client.Answer, error) {
		a, err := tx.sendOnce(ctx, name, body, again)
		if mongoerr.Is(err, mongoerr.NoSuchTransaction) {
			err = nil
		}
		return a, err
	})
	return err
}

// send sends a command that ends the transaction to a shard. It is sent again if the answer
// is lost.
func (tx *transaction) send(ctx context.Context, shard string, body bson.Doc) (client.Answer, error) {
	return tx.sendOnce(ctx, shard, body, true)
}

func (tx *transaction) sendOnce(ctx context.Context, shard string, body bson.Doc, again bool) (client.Answer, error) {
	set, err := tx.router.shards.shard(ctx, shard)
	if err != nil {
		return client.Answer{}, err
	}
	tx.router.transactions.stats.requests.Add(1)
	return set.Run(ctx, client.Call{DB: "admin", Body: body, Idempotent: again})
}
