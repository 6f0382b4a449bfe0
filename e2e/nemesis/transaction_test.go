package nemesis

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/sim"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const (
	transactionClients = 4
	// transactionKeys are the lists that transactions meet in, transactionMost how many
	// transactions do so.
	transactionKeys = 5
	transactionMost = 250
)

// transactions has clients append to lists and read them in multi-document transactions: each
// list is a document. The history must be one of snapshot isolation.
type transactions struct {
	client *mongo.Client
	lists  *mongo.Collection
	begun  time.Time
	value  atomic.Int64

	mu       sync.Mutex
	asked    int
	history  map[int][]sim.ListTxn // of each group of lists
	outcomes [sim.Unknown + 1]int
	failures failures
}

func newTransactions(s *set) *transactions {
	c := s.connect()
	return &transactions{client: c, lists: c.Database("app").Collection("transactions"), begun: time.Now(), history: map[int][]sim.ListTxn{}, failures: failures{}}
}

func (x *transactions) now() int64 { return time.Since(x.begun).Nanoseconds() }

func (x *transactions) run(ctx context.Context) {
	clients(ctx, transactionClients, func(ctx context.Context, _ int) {
		x.mu.Lock()
		group := x.asked / transactionMost
		x.asked++
		x.mu.Unlock()
		txn := sim.ListTxn{Call: x.now()}
		err := x.transact(ctx, group, &txn)
		txn.Return = x.now()
		x.mu.Lock()
		defer x.mu.Unlock()
		if err != nil {
			x.failures.note(err)
		}
		x.outcomes[txn.Outcome]++
		x.history[group] = append(x.history[group], txn)
	})
}

// transact runs one transaction, once: what it tried to append is in txn, whatever happens.
func (x *transactions) transact(ctx context.Context, group int, txn *sim.ListTxn) error {
	ctx, stop := context.WithTimeout(ctx, opTimeout)
	defer stop()
	txn.Outcome = sim.Aborted
	s, err := x.client.StartSession(options.Session().SetDefaultTransactionOptions(
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
		key := rand.IntN(transactionKeys)
		if rand.IntN(2) == 0 {
			err = x.read(in, group, key, txn)
		} else {
			txn.Stale = false
			v := int(x.value.Add(1))
			txn.Ops = append(txn.Ops, sim.ListOp{Key: key, Append: true, Value: v})
			_, err = x.lists.UpdateOne(in, bson.D{{Key: "_id", Value: group*transactionKeys + key}}, bson.D{{Key: "$push", Value: bson.D{{Key: "v", Value: v}}}}, options.UpdateOne().SetUpsert(true))
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
func (x *transactions) read(ctx context.Context, group, key int, txn *sim.ListTxn) error {
	var d struct{ V []int }
	err := x.lists.FindOne(ctx, bson.D{{Key: "_id", Value: group*transactionKeys + key}}).Decode(&d)
	if err == nil || errors.Is(err, mongo.ErrNoDocuments) {
		txn.Ops = append(txn.Ops, sim.ListOp{Key: key, List: d.V})
		return nil
	}
	return err
}

func (x *transactions) check(t *testing.T) {
	n := 0
	for group, history := range x.history {
		last := sim.ListTxn{Call: x.now()}
		for key := range transactionKeys {
			if err := x.read(t.Context(), group, key, &last); err != nil {
				t.Errorf("transactions: %v", err)
			}
		}
		last.Return = x.now()
		n += len(history)
		if a := sim.CheckSnapshotLists(append(history, last)); a != nil {
			t.Errorf("transactions on lists of group %d: %v", group, a)
		}
	}
	t.Logf("transactions: %d, %d committed, %d aborted, %d unknown; errors: %v", n, x.outcomes[sim.Committed], x.outcomes[sim.Aborted], x.outcomes[sim.Unknown], x.failures)
	if x.outcomes[sim.Committed] == 0 {
		t.Error("transactions: none was committed")
	}
}
