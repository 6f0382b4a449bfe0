package clustersim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/sim"
)

// patience bounds one command of a client.
const patience = 12 * time.Second

// agent is one client, which speaks with any of the routers.
type agent struct {
	w     *world
	name  string
	rng   *rand.Rand
	conns map[string]*client.Conn
	lsid  bson.Doc
	txn   int64
	again bool // the last write was tried again
}

func (w *world) agent(name string, purpose uint64) *agent {
	id := make([]byte, 16)
	rng := rand.New(rand.NewPCG(w.seed, purpose))
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	return &agent{w: w, name: name, rng: rng, conns: map[string]*client.Conn{}, lsid: new(bson.Builder).Binary("id", 4, id).Finish()}
}

func (a *agent) close() {
	for _, c := range a.conns {
		_ = c.Close()
	}
}

// run runs a command on a process. Errors that are no *mongoerr.Error say nothing of its
// outcome.
func (a *agent) run(to, db string, body bson.Doc) (bson.Doc, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c := a.conns[to]
	if c == nil {
		var err error
		c, err = client.Connect(ctx, client.Options{Address: to + ":" + port, AppName: a.name, Dial: func(ctx context.Context, at string) (net.Conn, error) { return a.w.net.dial(ctx, a.name, nil, at) }})
		if err != nil {
			return nil, fmt.Errorf("connecting: %w", err)
		}
		a.conns[to] = c
	}
	reply, err := c.Run(ctx, db, body)
	var refused *mongoerr.Error
	if err != nil && !errors.As(err, &refused) {
		_ = c.Close()
		delete(a.conns, to)
	}
	if err == nil {
		err = written(reply)
	}
	return reply, err
}

// written is the error of a write, or of its write concern, in a reply.
func written(reply bson.Doc) error {
	if v := reply.Lookup("writeErrors"); v.Type == bson.TypeArray && len(v.Doc().Slice()) > 0 {
		e := v.Doc().Slice()[0].Doc()
		return mongoerr.New(mongoerr.Code(bson.ClampToInt64(e.Lookup("code"))), "%s", e)
	}
	if v := reply.Lookup("writeConcernError"); v.Type == bson.TypeDocument {
		return errors.New(v.Doc().String())
	}
	return nil
}

func (a *agent) router() string { return routers[a.rng.IntN(len(routers))] }

func other(router string) string {
	return routers[(slices.Index(routers, router)+1)%len(routers)]
}

// write runs a retryable write, and once more through the other router where the outcome is
// not known, as drivers do.
func (a *agent) write(body func(b *bson.Builder)) (bson.Doc, error) {
	a.txn++
	a.again = false
	b := new(bson.Builder)
	body(b)
	d := b.OpenDoc("writeConcern").String("w", "majority").Close().Doc("lsid", a.lsid).Int64("txnNumber", a.txn).Finish()
	at := a.router()
	reply, err := a.run(at, "app", d)
	if err == nil {
		return reply, nil
	}
	a.again = true
	if again, err := a.run(other(at), "app", d); err == nil {
		return again, nil
	}
	return nil, err
}

// keys are the documents that clients meet in.
const keys = 5

// register does one operation on a register.
func (a *agent) register(of int) {
	w := a.w
	op := sim.RegisterOp{Client: of, Key: a.rng.IntN(keys), Kind: sim.RegisterKind(a.rng.IntN(3)), To: w.nextValue()}
	if op.From = op.To - 1 - a.rng.IntN(6); op.Kind == sim.Swap && op.From <= 0 {
		op.Kind = sim.Write
	}
	op.Call = w.now()
	var err error
	switch op.Kind {
	case sim.Read:
		var reply bson.Doc
		reply, err = a.run(a.router(), "app", new(bson.Builder).String("find", "registers").OpenDoc("filter").Int32("_id", int32(op.Key)).Close().Int32("limit", 1).Bool("singleBatch", true).
			OpenDoc("readConcern").String("level", "linearizable").Close().Finish())
		if err == nil {
			for _, d := range first(reply) {
				op.Value = int(bson.ClampToInt64(d.Lookup("v")))
			}
		}
	case sim.Write:
		_, err = a.write(func(b *bson.Builder) {
			b.String("update", "registers").OpenArray("updates").OpenDoc("0").OpenDoc("q").Int32("_id", int32(op.Key)).Close().
				OpenDoc("u").OpenDoc("$set").Int64("v", int64(op.To)).Close().Close().Bool("upsert", true).Close().Close()
		})
	case sim.Swap:
		var reply bson.Doc
		reply, err = a.write(func(b *bson.Builder) {
			b.String("findAndModify", "registers").OpenDoc("query").Int32("_id", int32(op.Key)).Int64("v", int64(op.From)).Close().
				OpenDoc("update").OpenDoc("$set").Int64("v", int64(op.To)).Close().Close()
		})
		if err == nil {
			op.Swapped = reply.Lookup("value").Type == bson.TypeDocument
		}
	}
	op.Return = w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(err)
	if op.Unknown = err != nil; err != nil && op.Kind == sim.Read {
		return
	}
	w.registers = append(w.registers, op)
	// What found nothing has no record, as in mongod, where a no-op is not logged: an attempt that
	// comes late may find something, and is then executed.
	if op.Kind == sim.Swap && !op.Unknown && !op.Swapped && (a.again || w.cameAgain[statementOf(a.lsid, a.txn)]) {
		op.Unknown = true
		w.registers = append(w.registers, op)
	}
}

// statementOf names a retryable statement of a session.
func statementOf(lsid bson.Doc, txn int64) string {
	_, id := lsid.Lookup("id").Binary()
	return fmt.Sprintf("%x %d", id, txn)
}

// first are the documents of a reply's first batch.
func first(reply bson.Doc) (out []bson.Doc) {
	v := reply.Lookup("cursor").Doc().Lookup("firstBatch")
	for d := range v.Doc().Values() {
		out = append(out, d.Doc())
	}
	return out
}

// transact runs one transaction on lists.
func (a *agent) transact() {
	w := a.w
	txn := sim.ListTxn{Call: w.now(), Stale: true}
	err := a.tryTransaction(&txn)
	txn.Return = w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(err)
	w.lists = append(w.lists, txn)
	w.outcomes[txn.Outcome]++
}

// within appends to a statement what makes it one of the transaction.
func (a *agent) within(b *bson.Builder) *bson.Builder {
	return b.Doc("lsid", a.lsid).Int64("txnNumber", a.txn).Bool("autocommit", false)
}

func (a *agent) tryTransaction(txn *sim.ListTxn) error {
	a.txn++
	txn.Outcome = sim.Aborted
	at := a.router()
	var token bson.Doc
	for i := range 1 + a.rng.IntN(4) {
		op := sim.ListOp{Key: a.rng.IntN(keys), Append: a.rng.IntN(3) > 0}
		b := new(bson.Builder)
		if op.Append {
			op.Value = a.w.nextValue()
			txn.Ops = append(txn.Ops, op)
			b.String("update", "lists").OpenArray("updates").OpenDoc("0").OpenDoc("q").Int32("_id", int32(op.Key)).Close().
				OpenDoc("u").OpenDoc("$push").Int64("v", int64(op.Value)).Close().Close().Bool("upsert", true).Close().Close()
		} else {
			b.String("find", "lists").OpenDoc("filter").Int32("_id", int32(op.Key)).Close()
		}
		if i == 0 {
			b.Bool("startTransaction", true).OpenDoc("readConcern").String("level", "snapshot").Close()
		}
		reply, err := a.run(at, "app", a.within(b).Finish())
		if err != nil {
			_, _ = a.run(at, "admin", a.within(new(bson.Builder).Int32("abortTransaction", 1)).Finish())
			return err
		}
		if v := reply.Lookup("recoveryToken"); v.Type == bson.TypeDocument {
			token = v.Doc().Clone()
		}
		if !op.Append {
			op.List = listOf(first(reply))
			txn.Ops = append(txn.Ops, op)
		}
	}
	if a.rng.IntN(2) == 0 { // so that more happens before it is prepared
		time.Sleep(time.Duration(a.rng.IntN(200)) * time.Millisecond)
	}
	b := a.within(new(bson.Builder).Int32("commitTransaction", 1)).OpenDoc("writeConcern").String("w", "majority").Close()
	if token != nil {
		b.Doc("recoveryToken", token)
	}
	commit := b.Finish()
	var last error
	for i := range 5 {
		_, err := a.run(at, "admin", commit)
		if err == nil {
			txn.Outcome = sim.Committed
			return nil
		}
		last = err
		var e *mongoerr.Error
		if errors.As(err, &e) && slices.Contains(e.Labels, "TransientTransactionError") {
			return err // the server says that it is aborted
		}
		if errors.As(err, &e) && e.Code == mongoerr.NoSuchTransaction && i > 0 && token != nil && token.Lookup("recoveryShardId").Type == bson.TypeString {
			return err
		}
		txn.Outcome = sim.Unknown
		at = other(at)
		time.Sleep(time.Duration(a.rng.IntN(500)) * time.Millisecond)
	}
	return last
}

func listOf(docs []bson.Doc) (out []int) {
	for _, d := range docs {
		for v := range d.Lookup("v").Doc().Values() {
			out = append(out, int(bson.ClampToInt64(v)))
		}
	}
	return out
}

// scan reads all of the documents that nobody changes: each is shown once.
func (a *agent) scan() {
	b := new(bson.Builder)
	counts := a.rng.IntN(3) == 0
	if counts {
		b.String("aggregate", "still").OpenArray("pipeline").OpenDoc("0").OpenDoc("$group").Null("_id").OpenDoc("n").Int32("$sum", 1).Close().Close().Close().Close().OpenDoc("cursor").Close()
	} else {
		b.String("find", "still").Int32("batchSize", 10000)
	}
	if a.rng.IntN(3) == 0 {
		b.OpenDoc("readConcern").String("level", "snapshot").Close()
	}
	body := b.Finish()
	reply, err := a.run(a.router(), "app", body)
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.tell(err)
	if err != nil {
		return
	}
	a.w.scans++
	docs := first(reply)
	if counts {
		if n := bson.ClampToInt64(docs[0].Lookup("n")); n != stillDocs {
			a.w.failLocked("%d documents are counted, not %d: %s", n, stillDocs, body)
		}
		return
	}
	if err := eachOnce(docs); err != nil {
		a.w.failLocked("%s: %v", body, err)
	}
}

// eachOnce reports what is wrong with the documents of still.
func eachOnce(docs []bson.Doc) error {
	seen := map[int64]int{}
	for _, d := range docs {
		seen[bson.ClampToInt64(d.Lookup("_id"))]++
	}
	var lost, doubled []int64
	for i := range int64(stillDocs) {
		switch {
		case seen[i] == 0:
			lost = append(lost, i)
		case seen[i] > 1:
			doubled = append(doubled, i)
		}
	}
	if len(lost)+len(doubled) == 0 {
		return nil
	}
	return fmt.Errorf("documents that are shown by nobody: %v, more than once: %v", lost, doubled)
}

// move changes where chunks are.
func (a *agent) move() {
	ns := "app." + collections[a.rng.IntN(len(collections))]
	key := a.rng.IntN(keys)
	if ns == "app.still" {
		key = a.rng.IntN(stillDocs)
	}
	b := new(bson.Builder)
	switch a.rng.IntN(8) {
	case 0:
		b.String("split", ns).OpenDoc("find").Int32("_id", int32(key)).Close()
	case 1:
		b.String("mergeAllChunksOnShard", ns).String("shard", shards[a.rng.IntN(len(shards))])
	default:
		b.String("moveChunk", ns).OpenDoc("find").Int32("_id", int32(key)).Close().String("to", shards[a.rng.IntN(len(shards))])
	}
	_, err := a.run(a.router(), "admin", b.Finish())
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.tell(err)
	if err == nil {
		a.w.moves++
	}
}

// killMove kills moves that are under way: they are undone, unless they are committed.
func (a *agent) killMove() {
	reply, err := a.run("cfg", "admin", new(bson.Builder).Int32("currentOp", 1).String("desc", "MoveRangeCoordinator").Finish())
	if err != nil {
		return
	}
	for op := range reply.Lookup("inprog").Doc().Values() {
		if a.rng.IntN(4) > 0 {
			continue
		}
		if _, err := a.run("cfg", "admin", new(bson.Builder).Int32("killOp", 1).Value("op", op.Doc().Lookup("opid")).Finish()); err == nil {
			a.w.mu.Lock()
			a.w.undone++
			a.w.mu.Unlock()
		}
	}
}
