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
)

const (
	listClients = 3
	// listMost is how many operations a document has: the checker compares each with each.
	listMost = 250
)

// listNames are the lists in a document.
var listNames = [...]string{"a", "b", "c"}

// lists has clients append to lists, several of one document at once, and read them as they
// were before (findAndModify): transactions on lists, as far as one document has them. The
// history must be strictly serializable.
type lists struct {
	reads  *mongo.Collection // read concern linearizable
	writes *mongo.Collection
	begun  time.Time
	value  atomic.Int64

	mu       sync.Mutex
	asked    int                   // operations so far
	history  map[int][]sim.ListTxn // of each document
	failures failures
}

func newLists(s *set) *lists {
	db := s.connect().Database("app")
	return &lists{writes: db.Collection("lists"), reads: db.Collection("lists", options.Collection().SetReadConcern(readconcern.Linearizable())),
		begun: time.Now(), history: map[int][]sim.ListTxn{}, failures: failures{}}
}

func (l *lists) run(ctx context.Context) {
	clients(ctx, listClients, func(ctx context.Context, _ int) {
		l.mu.Lock()
		doc := l.asked / listMost
		l.asked++
		l.mu.Unlock()
		if rand.IntN(4) == 0 {
			l.read(ctx, doc)
		} else {
			l.append(ctx, doc)
		}
	})
}

// steps are the reads of all lists of a document.
func steps(d map[string][]int) (ops []sim.ListOp) {
	for i, name := range listNames {
		ops = append(ops, sim.ListOp{Key: i, List: d[name]})
	}
	return ops
}

// decodeLists reads a document; one that is not there has empty lists.
func decodeLists(r *mongo.SingleResult) (map[string][]int, error) {
	var d struct {
		A, B, C []int
	}
	err := r.Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = nil
	}
	return map[string][]int{"a": d.A, "b": d.B, "c": d.C}, err
}

func (l *lists) read(ctx context.Context, doc int) {
	txn := sim.ListTxn{Call: time.Since(l.begun).Nanoseconds()}
	d, err := decodeLists(l.reads.FindOne(ctx, bson.D{{Key: "_id", Value: doc}}))
	txn.Return, txn.Ops = time.Since(l.begun).Nanoseconds(), steps(d)
	l.note(doc, txn, err, err == nil)
}

func (l *lists) append(ctx context.Context, doc int) {
	txn := sim.ListTxn{Call: time.Since(l.begun).Nanoseconds()}
	push := bson.D{}
	var appends []sim.ListOp
	for i, name := range listNames {
		if len(push) == 0 && i == len(listNames)-1 || rand.IntN(2) == 0 {
			v := int(l.value.Add(1))
			push = append(push, bson.E{Key: name, Value: v})
			appends = append(appends, sim.ListOp{Key: i, Append: true, Value: v})
		}
	}
	before, err := decodeLists(l.writes.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: doc}}, bson.D{{Key: "$push", Value: push}}, options.FindOneAndUpdate().SetUpsert(true)))
	txn.Return = time.Since(l.begun).Nanoseconds()
	if err != nil {
		txn.Outcome = sim.Unknown
	} else {
		txn.Ops = steps(before)
	}
	txn.Ops = append(txn.Ops, appends...)
	l.note(doc, txn, err, true)
}

func (l *lists) note(doc int, txn sim.ListTxn, err error, keep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures.note(err)
	}
	if keep {
		l.history[doc] = append(l.history[doc], txn)
	}
}

func (l *lists) check(t *testing.T) {
	n := 0
	for doc := range l.history {
		l.read(t.Context(), doc)
		n += len(l.history[doc])
		if a := sim.CheckLists(l.history[doc]); a != nil {
			t.Errorf("lists of document %d: %v", doc, a)
		}
	}
	t.Logf("lists: %d transactions on %d documents; errors: %v", n, len(l.history), l.failures)
	if n == 0 {
		t.Error("lists: nothing was answered")
	}
}
