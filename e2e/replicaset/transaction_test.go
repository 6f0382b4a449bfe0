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
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

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
	audits           [2]atomic.Int64 // on secondaries, on primaries
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

// work has clerks transfer, one of them look at all accounts, and one audit, until end.
func (b *bank) work(clerks int) {
	for i := range clerks {
		b.clerks.Go(func() {
			for {
				select {
				case <-b.over:
					return
				default:
				}
				switch i {
				case 0:
					b.count()
				case 1:
					b.audit()
				default:
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

// audit reads accounts and ledger in one state, of a secondary or of the primary, and holds that they
// say the same: so transactions are whole there, too.
func (b *bank) audit() {
	ctx, stop := context.WithTimeout(b.t.Context(), patience)
	defer stop()
	s, err := b.c.StartSession(options.Session().SetSnapshot(true))
	if err != nil {
		b.t.Error(err)
		return
	}
	defer s.EndSession(ctx)
	where := rand.IntN(2)
	pref := []*readpref.ReadPref{readpref.Secondary(), readpref.Primary()}[where]
	in := mongo.NewSessionContext(ctx, s)
	read := func(c *mongo.Collection, all any) error {
		cur, err := c.Clone(options.Collection().SetReadPreference(pref)).Find(in, bson.D{})
		if err != nil {
			return err
		}
		return cur.All(in, all)
	}
	var all []account
	var lines []line
	if err = read(b.accounts, &all); err == nil {
		err = read(b.ledger, &lines)
	}
	if err != nil || len(all) == 0 {
		return // no longer kept there, or nobody is there
	}
	b.balance(all, lines)
	b.audits[where].Add(1)
}

type account struct {
	ID int `bson:"_id"`
	N  int
}

type line struct {
	ID          bson.ObjectID `bson:"_id"`
	From, To, N int
}

// balance holds that accounts and ledger say the same.
func (b *bank) balance(all []account, lines []line) {
	b.t.Helper()
	want := map[int]int{}
	for i := range accounts {
		want[i] = balance
	}
	for _, l := range lines {
		want[l.From] -= l.N
		want[l.To] += l.N
	}
	for _, a := range all {
		if a.N != want[a.ID] {
			b.t.Errorf("account %d has %d, by the ledger %d", a.ID, a.N, want[a.ID])
		}
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
	var lines []line
	find(b.t, b.ledger, &lines)
	for _, l := range lines {
		delete(b.done, l.ID)
	}
	for id := range b.done {
		b.t.Errorf("the transfer %s was acknowledged, and is not in the ledger", id)
	}
	var all []account
	find(b.t, b.accounts, &all)
	b.balance(all, lines)
	if b.audits[0].Load() == 0 || b.audits[1].Load() == 0 {
		b.t.Errorf("%d audits on secondaries, %d on primaries", b.audits[0].Load(), b.audits[1].Load())
	}
	b.t.Logf("%d transfers in the ledger, %d sums, %d and %d audits, %d transactions failed", len(lines), b.sums.Load(), b.audits[0].Load(), b.audits[1].Load(), b.failed.Load())
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
	set.same()
}

const (
	largeDocuments = 1500
	largeBytes     = 64 << 10
)

// insertLarge inserts, in one transaction, as many bytes as make a chain of entries. begun is
// called before the commit.
func insertLarge(ctx context.Context, c *mongo.Client, round int, begun func()) error {
	s, err := c.StartSession()
	if err != nil {
		return err
	}
	defer s.EndSession(ctx)
	if err := s.StartTransaction(); err != nil {
		return err
	}
	in := mongo.NewSessionContext(ctx, s)
	large := c.Database("app").Collection("large")
	pad := make([]byte, largeBytes)
	for i := 0; i < largeDocuments; i += 100 {
		var docs []any
		for k := range 100 {
			docs = append(docs, bson.D{{Key: "_id", Value: round*largeDocuments + i + k}, {Key: "round", Value: round}, {Key: "pad", Value: pad}})
		}
		if _, err := large.InsertMany(in, docs); err != nil {
			return err
		}
	}
	begun()
	return s.CommitTransaction(ctx)
}

// TestLargeTransaction holds that a transaction of 96 MB, a chain of entries in the log, is
// whole or not there, on all members, where its primary is killed in the middle of the commit; that
// a commit which is then sent again says which; and that the oplog and a change stream tell
// it once.
func TestLargeTransaction(t *testing.T) {
	set := start(t)
	var hosts []string
	for _, m := range set.members {
		hosts = append(hosts, host(m))
	}
	c := testkit.Connect(t, options.Client().ApplyURI("mongodb://"+strings.Join(hosts, ",")+"/?replicaSet=rs0").SetServerSelectionTimeout(patience))
	large := c.Database("app").Collection("large")
	stream, err := large.Watch(t.Context(), mongo.Pipeline{{{Key: "$project", Value: bson.D{{Key: "documentKey", Value: 1}, {Key: "clusterTime", Value: 1}, {Key: "txnNumber", Value: 1}}}}}, options.ChangeStream().SetMaxAwaitTime(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close(t.Context())
	var want []int
	for round := range 4 {
		p := set.primary(-1)
		var killed sync.WaitGroup
		err := insertLarge(t.Context(), c, round, func() {
			if round == 0 {
				return
			}
			killed.Go(func() { // once some parts are in the log
				for parts, last := 0, set.optime(p); parts < 2*round; {
					if now := set.optime(p); now != last {
						parts, last = parts+1, now
					}
				}
				losses[0].lose(set, p)
			})
		})
		killed.Wait()
		set.healthy()
		n, failed := large.CountDocuments(t.Context(), bson.D{{Key: "round", Value: round}})
		if failed != nil {
			t.Fatal(failed)
		}
		t.Logf("round %d: %d documents, and the commit said %v", round, n, err)
		if n != 0 && n != largeDocuments || err == nil && n == 0 {
			t.Errorf("round %d: %d documents, and the commit said %v", round, n, err)
		}
		if n > 0 {
			want = append(want, round)
		}
	}
	for _, round := range want {
		first := bson.RawValue{}
		for i := range largeDocuments {
			if !stream.Next(t.Context()) {
				t.Fatalf("the stream ends: %v", stream.Err())
			}
			if id := stream.Current.Lookup("documentKey", "_id").AsInt64(); id != int64(round*largeDocuments+i) {
				t.Fatalf("document %d of round %d is %s", i, round, stream.Current)
			}
			if at := stream.Current.Lookup("clusterTime"); i == 0 {
				first = at
			} else if !at.Equal(first) {
				t.Fatalf("one transaction has the times %s and %s", first, at)
			}
		}
	}
	set.same()
}

// optime is the time of the last entry of a member's log; 0 if it does not answer.
func (w *set) optime(i int) (at uint64) {
	var hello struct {
		LastWrite struct{ OpTime struct{ TS bson.Timestamp } } `bson:"lastWrite"`
	}
	if w.clients[i].Database("admin").RunCommand(w.t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello) != nil {
		return 0
	}
	return uint64(hello.LastWrite.OpTime.TS.T)<<32 | uint64(hello.LastWrite.OpTime.TS.I)
}

// same waits until all members have the same.
func (w *set) same() {
	w.t.Helper()
	until(w.t, "all members have the same", func() error {
		first, err := w.hash(0)
		for i := 1; err == nil && i < len(w.members); i++ {
			var h string
			if h, err = w.hash(i); err == nil && h != first {
				err = fmt.Errorf("member %d differs", i)
			}
		}
		return err
	})
}

// TestExpiryPassesByTransaction holds that the TTL monitor removes what is due beside a document
// that an idle transaction has locked, and that one when the transaction is over, if it is still
// due then.
func TestExpiryPassesByTransaction(t *testing.T) {
	s := testkit.Start(t, "--replSet", "rs0", "--initiate", "--setParameter", "ttlMonitorSleepSecs=1")
	client := s.Direct()
	if err := client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "setParameter", Value: 1}, {Key: "expiryWindows", Value: false}}).Err(); err != nil {
		t.Fatal(err)
	}
	c := client.Database("app").Collection("docs")
	until(t, "an index", func() error {
		_, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)})
		return err
	})
	for _, kept := range []bool{false, true} {
		due := time.Now().Add(2 * time.Second)
		var docs []any
		for i := range 20 {
			docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "at", Value: due}})
		}
		if _, err := c.InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
		session, err := client.StartSession()
		if err == nil {
			err = session.StartTransaction()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.UpdateByID(mongo.NewSessionContext(t.Context(), session), 7, bson.D{{Key: "$set", Value: bson.D{{Key: "at", Value: due.Add(time.Hour)}}}}); err != nil {
			t.Fatal(err)
		}
		passes := func() (n int64) {
			var status struct {
				Metrics struct{ TTL struct{ Passes int64 } }
			}
			if err := client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status); err != nil {
				t.Fatal(err)
			}
			return status.Metrics.TTL.Passes
		}
		until(t, "all others go", func() error {
			if n, err := c.CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 {
				return fmt.Errorf("%d documents, %v", n, err)
			}
			return nil
		})
		before := passes()
		until(t, "two more passes", func() error {
			if n := passes(); n < before+2 {
				return fmt.Errorf("%d passes, after %d", n, before)
			}
			return nil
		})
		holds(t, c, 1)
		end := session.AbortTransaction
		if kept {
			end = session.CommitTransaction
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		session.EndSession(t.Context())
		before = passes()
		until(t, "two passes after the end", func() error {
			if n := passes(); n < before+2 {
				return fmt.Errorf("%d passes, after %d", n, before)
			}
			return nil
		})
		want := int64(0)
		if kept {
			want = 1
		}
		holds(t, c, want)
	}
}
