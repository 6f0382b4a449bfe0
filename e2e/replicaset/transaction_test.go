package replicaset

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mayflydb/mayfly/internal/testkit"
)

const (
	accounts = 10
	balance  = 1000 // of each at the beginning
)

// bank transfers money between accounts, each transfer a transaction that also writes a
// line into a ledger. What was acknowledged is done; of what failed nobody knows.
type bank struct {
	t                *testing.T
	c                *mongo.Client
	accounts, ledger *mongo.Collection
	over             chan struct{}
	clerks           sync.WaitGroup
	mu               sync.Mutex
	done             map[bson.ObjectID]bool
	failed, sums     atomic.Int64
}

func openBank(t *testing.T, c *mongo.Client) *bank {
	db := c.Database("bank")
	b := &bank{t: t, c: c, accounts: db.Collection("accounts"), ledger: db.Collection("ledger"), over: make(chan struct{}), done: map[bson.ObjectID]bool{}}
	var docs []any
	for i := range accounts {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "n", Value: balance}})
	}
	if _, err := b.accounts.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ledger.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "from", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	return b
}

// work has clerks transfer, and one of them look at all accounts, until end.
func (b *bank) work(clerks int) {
	for i := range clerks {
		b.clerks.Go(func() {
			for {
				select {
				case <-b.over:
					return
				default:
				}
				if i == 0 {
					b.count()
				} else {
					b.transfer()
				}
			}
		})
	}
}

// transfer moves money from one account to another, which have enough.
func (b *bank) transfer() {
	ctx, stop := context.WithTimeout(b.t.Context(), patience)
	defer stop()
	s, err := b.c.StartSession()
	if err != nil {
		b.t.Error(err)
		return
	}
	defer s.EndSession(ctx)
	id, from := bson.NewObjectID(), rand.IntN(accounts)
	to, n := (from+1+rand.IntN(accounts-1))%accounts, 1+rand.IntN(50)
	_, err = s.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		if err := b.pay(ctx, from, -n); err != nil {
			return nil, err
		}
		if err := b.pay(ctx, to, n); err != nil {
			return nil, err
		}
		return b.ledger.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "from", Value: from}, {Key: "to", Value: to}, {Key: "n", Value: n}})
	})
	if errors.Is(err, errPoor) {
		return
	}
	if err != nil {
		b.failed.Add(1)
		b.t.Logf("a transfer: %v", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[id] = true
}

var errPoor = errors.New("the account has too little")

// pay changes an account by what it has read there before, so a lost update shows.
func (b *bank) pay(ctx context.Context, account, n int) error {
	var a struct{ N int }
	if err := b.accounts.FindOne(ctx, bson.D{{Key: "_id", Value: account}}).Decode(&a); err != nil {
		return err
	}
	if a.N+n < 0 {
		return errPoor
	}
	_, err := b.accounts.UpdateOne(ctx, bson.D{{Key: "_id", Value: account}}, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: a.N + n}}}})
	return err
}

// count adds up all accounts in one transaction, one find each, in which the sum is always
// the same.
func (b *bank) count() {
	ctx, stop := context.WithTimeout(b.t.Context(), patience)
	defer stop()
	s, err := b.c.StartSession(options.Session().SetDefaultTransactionOptions(options.Transaction().SetReadConcern(readconcern.Snapshot())))
	if err != nil {
		b.t.Error(err)
		return
	}
	defer s.EndSession(ctx)
	sum := 0
	_, err = s.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		sum = 0
		for i := range accounts {
			var a struct{ N int }
			if err := b.accounts.FindOne(ctx, bson.D{{Key: "_id", Value: i}}).Decode(&a); err != nil {
				return nil, err
			}
			sum += a.N
		}
		return nil, nil
	})
	if err != nil {
		b.failed.Add(1)
		return
	}
	b.sums.Add(1)
	if sum != accounts*balance {
		b.t.Errorf("the accounts have %d together in one transaction", sum)
	}
}

// goOn waits until some more transfers are acknowledged.
func (b *bank) goOn(more int) {
	b.t.Helper()
	count := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.done)
	}
	before := count()
	until(b.t, "transfers go on", func() error {
		if n := count() - before; n < more {
			return fmt.Errorf("%d transfers", n)
		}
		return nil
	})
}

// end stops the clerks, and holds that accounts and ledger say the same, and that all that
// was acknowledged is there once.
func (b *bank) end() {
	b.t.Helper()
	close(b.over)
	b.clerks.Wait()
	want := map[int]int{}
	for i := range accounts {
		want[i] = balance
	}
	var lines []struct {
		ID          bson.ObjectID `bson:"_id"`
		From, To, N int
	}
	find(b.t, b.ledger, &lines)
	for _, l := range lines {
		want[l.From] -= l.N
		want[l.To] += l.N
		delete(b.done, l.ID)
	}
	for id := range b.done {
		b.t.Errorf("the transfer %s was acknowledged, and is not in the ledger", id)
	}
	var all []struct {
		ID int `bson:"_id"`
		N  int
	}
	find(b.t, b.accounts, &all)
	for _, a := range all {
		if a.N != want[a.ID] {
			b.t.Errorf("account %d has %d, by the ledger %d", a.ID, a.N, want[a.ID])
		}
	}
	b.t.Logf("%d transfers in the ledger, %d sums, %d transactions failed", len(lines), b.sums.Load(), b.failed.Load())
}

// find reads all documents of a collection.
func find(t *testing.T, c *mongo.Collection, all any) {
	t.Helper()
	until(t, c.Name(), func() error {
		cur, err := c.Find(t.Context(), bson.D{})
		if err != nil {
			return err
		}
		return cur.All(t.Context(), all)
	})
}

// TestBank has clerks transfer money while primaries are killed, step down, and are stopped:
// transfers are whole or not there, acknowledged ones stay, and each transaction reads one
// state. In the end all members have the same.
func TestBank(t *testing.T) {
	set := start(t)
	var hosts []string
	for _, m := range set.members {
		hosts = append(hosts, host(m))
	}
	c := testkit.Connect(t, options.Client().ApplyURI("mongodb://"+strings.Join(hosts, ",")+"/?replicaSet=rs0").SetServerSelectionTimeout(patience))
	b := openBank(t, c)
	b.work(6)
	b.goOn(30)
	for _, l := range losses[:3] {
		begun := time.Now()
		l.lose(set, set.primary(-1))
		b.goOn(20)
		t.Logf("%s: goes on after %s", l.name, time.Since(begun).Round(time.Millisecond))
		set.healthy()
	}
	b.end()
	until(t, "all members have the same", func() error {
		first, err := set.hash(0)
		for i := 1; err == nil && i < len(set.members); i++ {
			var h string
			if h, err = set.hash(i); err == nil && h != first {
				err = fmt.Errorf("member %d differs", i)
			}
		}
		return err
	})
}
