package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mayflydb/mayfly/internal/sim"
)

// ListTransactions are transactions with read concern snapshot that append to lists and read
// them: each list is a document. The history must be one of snapshot isolation. Any number of
// goroutines may transact.
type ListTransactions struct {
	Client *mongo.Client
	Coll   *mongo.Collection
	// Keys is how many lists a group has, in which transactions meet, and Most how many
	// transactions do so: what the checker compares grows with the square.
	Keys, Most int
	// Patience bounds a transaction, retries included.
	Patience time.Duration
	// Stale says that one that writes, too, may read a state from before what others were told:
	// a router may not have heard of it.
	Stale bool
	// Failed, if not nil, is told of errors, of one at a time.
	Failed func(error)

	begun time.Time
	value atomic.Int64

	mu       sync.Mutex
	asked    int
	history  map[int][]sim.ListTxn // of each group
	outcomes [sim.Unknown + 1]int
}

// Begin makes x ready. It comes before anything else.
func (x *ListTransactions) Begin() {
	x.begun, x.history = time.Now(), map[int][]sim.ListTxn{}
}

func (x *ListTransactions) now() int64 { return time.Since(x.begun).Nanoseconds() }

// Transact runs one transaction, once, and notes its outcome.
func (x *ListTransactions) Transact(ctx context.Context) {
	x.mu.Lock()
	group := x.asked / x.Most
	x.asked++
	x.mu.Unlock()
	txn := sim.ListTxn{Call: x.now()}
	err := x.transact(ctx, group, &txn)
	txn.Return = x.now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil && x.Failed != nil {
		x.Failed(err)
	}
	x.outcomes[txn.Outcome]++
	x.history[group] = append(x.history[group], txn)
}

// transact runs a transaction: what it tried to append is in txn, whatever happens.
func (x *ListTransactions) transact(ctx context.Context, group int, txn *sim.ListTxn) error {
	ctx, stop := context.WithTimeout(ctx, x.Patience)
	defer stop()
	txn.Outcome = sim.Aborted
	s, err := x.Client.StartSession(options.Session().SetDefaultTransactionOptions(
		options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority())))
	if err != nil {
		return err
	}
	defer s.EndSession(context.WithoutCancel(ctx))
	if err := s.StartTransaction(); err != nil {
		return err
	}
	in := mongo.NewSessionContext(ctx, s)
	txn.Stale = true // until it writes
	for range 1 + rand.IntN(4) {
		key := rand.IntN(x.Keys)
		if rand.IntN(2) == 0 {
			err = x.read(in, group, key, txn)
		} else {
			txn.Stale = x.Stale
			v := int(x.value.Add(1))
			txn.Ops = append(txn.Ops, sim.ListOp{Key: key, Append: true, Value: v})
			_, err = x.Coll.UpdateOne(in, bson.D{{Key: "_id", Value: group*x.Keys + key}}, bson.D{{Key: "$push", Value: bson.D{{Key: "v", Value: v}}}}, options.UpdateOne().SetUpsert(true))
		}
		if err != nil {
			return errors.Join(err, s.AbortTransaction(context.WithoutCancel(ctx)))
		}
	}
	err = s.CommitTransaction(ctx)
	var known mongo.LabeledError
	switch {
	case err == nil:
		txn.Outcome = sim.Committed
	case errors.As(err, &known) && known.HasErrorLabel("TransientTransactionError"):
		// The server says that it is aborted.
	default:
		txn.Outcome = sim.Unknown
	}
	return err
}

// read reads a list; one that is not there is empty.
func (x *ListTransactions) read(ctx context.Context, group, key int, txn *sim.ListTxn) error {
	var d struct{ V []int }
	err := x.Coll.FindOne(ctx, bson.D{{Key: "_id", Value: group*x.Keys + key}}).Decode(&d)
	if err == nil || errors.Is(err, mongo.ErrNoDocuments) {
		txn.Ops = append(txn.Ops, sim.ListOp{Key: key, List: d.V})
		return nil
	}
	return err
}

// Check reads all lists and judges the history, once no transaction runs. wrong is told of what
// must not be, and of lists that cannot be read.
func (x *ListTransactions) Check(ctx context.Context, wrong func(group int, what any)) (outcomes [sim.Unknown + 1]int) {
	for group, history := range x.history {
		last := sim.ListTxn{Call: x.now()}
		for key := range x.Keys {
			if err := x.read(ctx, group, key, &last); err != nil {
				wrong(group, err)
			}
		}
		last.Return = x.now()
		if a := sim.CheckSnapshotLists(append(history, last)); a != nil {
			wrong(group, a)
		}
	}
	return x.outcomes
}
