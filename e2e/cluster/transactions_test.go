package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// bank is accounts on two shards, and the transfers between them: each is a document that its
// transaction inserts.
type bank struct {
	c        *cluster
	client   *mongo.Client // of all routers
	accounts *mongo.Collection
	log      *mongo.Collection
	next     atomic.Int64
	mu       sync.Mutex
	told     map[int64]bool // the transfers of which the client knows that they are committed, or not
}

// accounts are so many that each shard has some.
const accountCount, balance = 16, 1000

// openBank shards the bank over a cluster with two routers.
func openBank(t *testing.T, c *cluster) *bank {
	t.Helper()
	c.admin(t, bson.D{{Key: "shardCollection", Value: "bank.accounts"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "bank.log"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	client, err := mongo.Connect(options.Client().ApplyURI(fmt.Sprintf("mongodb://%s,%s/", c.routers[0].Host(), c.routers[1].Host())).
		SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	b := &bank{c: c, client: client, told: map[int64]bool{}}
	b.accounts, b.log = client.Database("bank").Collection("accounts"), client.Database("bank").Collection("log")
	var docs []any
	for i := range accountCount {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "balance", Value: balance}})
	}
	if _, err := b.accounts.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	return b
}

// transfer takes one from an account to another. An error says that it has not happened, or
// is that of a commit whose outcome is not known.
func (b *bank) transfer(ctx context.Context, from, to int) (number int64, err error) {
	number = b.next.Add(1)
	s, err := b.client.StartSession()
	if err != nil {
		return number, err
	}
	defer s.EndSession(context.WithoutCancel(ctx))
	_, err = s.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		for i, id := range []int{from, to} {
			r, err := b.accounts.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "balance", Value: 2*i - 1}}}})
			if err != nil {
				return nil, err
			}
			if r.MatchedCount != 1 {
				return nil, fmt.Errorf("account %d is not there", id)
			}
		}
		_, err := b.log.InsertOne(ctx, bson.D{{Key: "_id", Value: number}, {Key: "from", Value: from}, {Key: "to", Value: to}})
		return nil, err
	})
	return number, err
}

// work transfers until ctx ends.
func (b *bank) work(ctx context.Context, t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, seed))
	for ctx.Err() == nil {
		from, to := r.IntN(accountCount), r.IntN(accountCount)
		if from == to {
			continue
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		number, err := b.transfer(limited, from, to)
		cancel()
		var labelled mongo.LabeledError
		unknown := errors.As(err, &labelled) && labelled.HasErrorLabel("UnknownTransactionCommitResult") || errors.Is(err, context.DeadlineExceeded)
		b.mu.Lock()
		switch {
		case err == nil:
			b.told[number] = true
		case !unknown:
			b.told[number] = false
		}
		b.mu.Unlock()
	}
}

// total reads all accounts at one time.
func (b *bank) total(ctx context.Context) (sum int, err error) {
	s, err := b.client.StartSession(options.Session().SetDefaultTransactionOptions(options.Transaction().SetReadConcern(readconcern.Snapshot())))
	if err != nil {
		return 0, err
	}
	defer s.EndSession(context.WithoutCancel(ctx))
	found, err := s.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		cur, err := b.accounts.Find(ctx, bson.D{})
		if err != nil {
			return nil, err
		}
		var docs []struct{ Balance int }
		if err := cur.All(ctx, &docs); err != nil {
			return nil, err
		}
		sum := 0
		for _, d := range docs {
			sum += d.Balance
		}
		return sum, nil
	})
	if err != nil {
		return 0, err
	}
	return found.(int), nil
}

// judge holds the balances against the log, and the log against what clients were told.
func (b *bank) judge(t *testing.T) (committed int) {
	t.Helper()
	until(t, "all transactions have ended", func() error {
		for _, s := range b.c.shards {
			var status struct {
				Transactions struct{ CurrentOpen, CurrentPrepared int }
			}
			if err := s.Direct().Database("admin").RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status); err != nil {
				return err
			}
			if n := status.Transactions.CurrentPrepared; n > 0 {
				return fmt.Errorf("%d are prepared", n)
			}
			var left []bson.D
			cur, err := s.Direct().Database("config").Collection("transaction_coordinators").Find(t.Context(), bson.D{})
			if err == nil {
				err = cur.All(t.Context(), &left)
			}
			if err != nil || len(left) > 0 {
				return fmt.Errorf("decisions are left: %v %w", left, err)
			}
		}
		return nil
	})
	want := map[int]int{}
	for i := range accountCount {
		want[i] = balance
	}
	var log []struct {
		ID       int64 `bson:"_id"`
		From, To int
	}
	all(t, b.log, &log)
	happened := map[int64]bool{}
	for _, l := range log {
		want[l.From]--
		want[l.To]++
		happened[l.ID] = true
	}
	var have []struct {
		ID      int `bson:"_id"`
		Balance int
	}
	all(t, b.accounts, &have)
	if len(have) != accountCount {
		t.Errorf("%d accounts", len(have))
	}
	for _, a := range have {
		if a.Balance != want[a.ID] {
			t.Errorf("account %d has %d, and by its transfers %d: half a transaction was committed", a.ID, a.Balance, want[a.ID])
		}
	}
	for number, yes := range b.told {
		if happened[number] != yes {
			t.Errorf("transfer %d: the client was told %v, and it is %v", number, yes, happened[number])
		}
	}
	return len(log)
}

func all(t *testing.T, coll *mongo.Collection, into any) {
	t.Helper()
	until(t, "reads "+coll.Name(), func() error {
		cur, err := coll.Find(t.Context(), bson.D{})
		if err != nil {
			return err
		}
		return cur.All(t.Context(), into)
	})
}

// TestTransfers: transfers between accounts on two shards through two routers, while shards
// and a router are killed: balances are what the transfers come to, no reader at one time
// sees half of one, and clients are told what has happened.
func TestTransfers(t *testing.T) {
	c := breakable(t)
	c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", c.config)))
	b := openBank(t, c)
	ctx, stop := context.WithTimeout(t.Context(), 12*time.Second)
	defer stop()
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() { b.work(ctx, t, uint64(i+1)) })
	}
	reads := 0
	running.Go(func() {
		for ctx.Err() == nil {
			sum, err := b.total(ctx)
			if err != nil {
				continue
			}
			if reads++; sum != accountCount*balance {
				t.Errorf("a reader at one time sees %d, not %d", sum, accountCount*balance)
			}
		}
	})
	victims := []*testkit.Server{c.shards[0], c.shards[1], c.routers[1]}
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(1500 * time.Millisecond)
		restart(victims[i%len(victims)])
	}
	running.Wait()
	n := b.judge(t)
	if n == 0 || reads == 0 {
		t.Errorf("%d transfers, %d reads", n, reads)
	}
	t.Logf("%d transfers, %d reads at one time", n, reads)
	together := 0
	for _, shard := range c.shards {
		together += decisionsWithParts(t, shard)
	}
	if together == 0 {
		t.Error("no transfer was over both shards")
	}
}

// decisionsWithParts counts the entries of a shard's log that store a decision. Each commits the
// shard's own part of the transaction, at its own time: nothing of these is so large that it is
// prepared before.
func decisionsWithParts(t *testing.T, shard *testkit.Server) (n int) {
	t.Helper()
	const decisions = "config.transaction_coordinators"
	oplog := shard.Direct().Database("local").Collection("oplog.rs")
	if alone, err := oplog.CountDocuments(t.Context(), bson.D{{Key: "ns", Value: decisions}, {Key: "op", Value: "i"}}); err != nil || alone > 0 {
		t.Errorf("%d decisions have an entry of their own: %v", alone, err)
	}
	var entries []struct {
		TS bson.Timestamp
		O  struct {
			ApplyOps []struct {
				NS string
				O  struct {
					Decision struct{ CommitTimestamp bson.Timestamp }
				}
			}
		}
	}
	cur, err := oplog.Find(t.Context(), bson.D{{Key: "o.applyOps.ns", Value: decisions}})
	if err == nil {
		err = cur.All(t.Context(), &entries)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if ops := e.O.ApplyOps; len(ops) < 2 || ops[0].NS != decisions || ops[1].NS == decisions {
			t.Errorf("an entry with a decision has %v", ops)
		} else if at := ops[0].O.Decision.CommitTimestamp; at != e.TS {
			t.Errorf("an entry of %v has a decision for %v", e.TS, at)
		}
	}
	return len(entries)
}

// TestTransfersOverSets is TestTransfers on sets of three, whose primaries are killed, one set
// after the other: another member goes on with what is prepared and decided.
func TestTransfersOverSets(t *testing.T) {
	lasts, least := 10*time.Second, 1
	if *long {
		lasts, least = 40*time.Second, 4
	}
	c, sets := startOfThree(t, 2, 2)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	b := openBank(t, c)
	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() { b.work(ctx, t, uint64(i+1)) })
	}
	kills := killPrimaries(t, ctx, sets[1:], 0)
	running.Wait()
	for i := range c.shards { // judge asks the primaries
		until(t, "a primary", func() error {
			if c.shards[i] = primary(t, sets[1+i]); c.shards[i] == nil {
				return errors.New("none")
			}
			return nil
		})
	}
	n := b.judge(t)
	if n == 0 || kills < least {
		t.Errorf("%d transfers, %d kills", n, kills)
	}
	t.Logf("%d transfers, %d primaries killed", n, kills)
}

// commitStep is a request of a commit over shards, which hangs on the shard that gets it, and
// who is killed meanwhile.
type commitStep struct {
	request string
	on      int // the shard: 0 coordinates
	kill    string
}

// TestKillInCommit: the coordinator, the other participant, or both routers are killed at each
// step. The transaction is then committed on both shards or on none, as the client is told,
// who asks the other router if need be.
func TestKillInCommit(t *testing.T) {
	c := breakable(t)
	c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", c.config)))
	b := openBank(t, c)
	here, there := b.apart(t)
	for _, step := range []commitStep{
		{"coordinateCommitTransaction", 0, "coordinator"}, {"coordinateCommitTransaction", 0, "routers"},
		{"prepareTransaction", 1, "participant"}, {"prepareTransaction", 1, "coordinator"}, {"prepareTransaction", 1, "routers"},
		{"commitTransaction", 1, "participant"}, {"commitTransaction", 1, "coordinator"}, {"commitTransaction", 1, "routers"},
	} {
		t.Run(step.request+", "+step.kill, func(t *testing.T) {
			ended := make(chan error, 1)
			hangAt(t, c.shards[step.on], step.request, 0)
			var number int64
			go func() {
				var err error
				number, err = b.transfer(t.Context(), here, there) // here is written first
				ended <- err
			}()
			hangs(t, c.shards[step.on], step.request, ended)
			switch step.kill {
			case "coordinator":
				restart(c.shards[0])
			case "participant":
				restart(c.shards[1])
			case "routers":
				restart(c.routers[0])
				restart(c.routers[1])
			}
			if err := <-ended; err != nil {
				t.Errorf("the client is told %v", err)
			}
			b.told[number] = true
		})
	}
	b.judge(t)
}

// TestDecideByHand: what a lost coordinator has left prepared is ended by an operator; what has a
// coordinator is not, nor what is not prepared.
func TestDecideByHand(t *testing.T) {
	c := breakable(t)
	c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", c.config)))
	b := openBank(t, c)
	here, there := b.apart(t)
	admin := c.shards[1].Direct().Database("admin")
	prepared := func() (all []struct {
		ID     bson.D `bson:"_id"`
		TxnNum int64  `bson:"txnNum"`
	}) {
		cur, err := c.shards[1].Direct().Database("config").Collection("transactions").Find(t.Context(), bson.D{{Key: "state", Value: "prepared"}})
		if err == nil {
			err = cur.All(t.Context(), &all)
		}
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	decide := func(txn int64, id bson.D, more ...bson.E) error {
		return admin.RunCommand(t.Context(), append(bson.D{{Key: "decidePreparedTransaction", Value: 1},
			{Key: "transaction", Value: bson.D{{Key: "lsid", Value: id}, {Key: "txnNumber", Value: txn}}}}, more...)).Err()
	}
	abort := bson.E{Key: "decision", Value: "abort"}
	for _, lost := range []bool{false, true} {
		at := map[bool]string{false: "commitTransaction", true: "prepareTransaction"}[lost]
		ended := make(chan error, 1)
		hangAt(t, c.shards[1], at, 0)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := b.transfer(ctx, here, there)
			ended <- err
		}()
		hangs(t, c.shards[1], at, ended)
		if lost {
			c.shards[0].Kill()
		}
		until(t, "it is prepared", func() error {
			if len(prepared()) != 1 {
				return errors.New("it is not")
			}
			return nil
		})
		tx := prepared()[0]
		if !lost {
			if err := decide(tx.TxnNum, tx.ID, abort); code(err) != 20 {
				t.Errorf("while the coordinator answers: %v", err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			continue
		}
		if err := decide(tx.TxnNum+1, tx.ID, abort); code(err) != 251 {
			t.Errorf("another number: %v", err)
		}
		if err := decide(tx.TxnNum, tx.ID, bson.E{Key: "decision", Value: "commit"}); code(err) != 72 {
			t.Errorf("a commit without a time: %v", err)
		}
		if err := decide(tx.TxnNum, tx.ID, abort); err != nil {
			t.Errorf("the coordinator is lost: %v", err)
		}
		if n := len(prepared()); n != 0 {
			t.Errorf("%d are prepared", n)
		}
		if r, err := c.shards[1].Direct().Database("bank").Collection("accounts").CountDocuments(t.Context(), bson.D{{Key: "balance", Value: balance + 1}}); err != nil || r != 1 {
			t.Errorf("%d accounts have what was committed before, %v", r, err)
		}
	}
}

// TestKeyMovesDocument: within a transaction an update, and a findAndModify, may change a
// document's shard key so that another shard owns it.
func TestKeyMovesDocument(t *testing.T) {
	c := start(t, 2, 1)
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.k"}, {Key: "key", Value: bson.D{{Key: "k", Value: 1}}}})
	c.admin(t, bson.D{{Key: "split", Value: "app.k"}, {Key: "middle", Value: bson.D{{Key: "k", Value: 10}}}})
	c.admin(t, bson.D{{Key: "moveRange", Value: "app.k"}, {Key: "min", Value: bson.D{{Key: "k", Value: bson.MinKey{}}}}, {Key: "toShard", Value: "s0"}})
	c.admin(t, bson.D{{Key: "moveRange", Value: "app.k"}, {Key: "min", Value: bson.D{{Key: "k", Value: 10}}}, {Key: "toShard", Value: "s1"}})
	client := c.routers[0].Client()
	coll := client.Database("app").Collection("k")
	if _, err := coll.InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: 1}, {Key: "k", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "k", Value: 2}}}); err != nil {
		t.Fatal(err)
	}
	set := func(k int) bson.D { return bson.D{{Key: "$set", Value: bson.D{{Key: "k", Value: k}}}} }
	within := func(f func(ctx context.Context) error) error {
		return client.UseSession(t.Context(), func(ctx context.Context) error {
			_, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, f(ctx) })
			return err
		})
	}
	err := within(func(ctx context.Context) error {
		r, err := coll.UpdateOne(ctx, bson.D{{Key: "k", Value: 1}}, set(20))
		if err == nil && (r.MatchedCount != 1 || r.ModifiedCount != 1) {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = within(func(ctx context.Context) error {
		var now struct{ K int }
		err := coll.FindOneAndUpdate(ctx, bson.D{{Key: "k", Value: 2}}, set(30), options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&now)
		if err == nil && now.K != 30 {
			err = fmt.Errorf("k is %d", now.K)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{0, 2} {
		if n, err := c.shards[i].Direct().Database("app").Collection("k").CountDocuments(t.Context(), bson.D{}); err != nil || n != want {
			t.Errorf("s%d has %d documents, want %d: %v", i, n, want, err)
		}
	}
}

// apart returns an account on the first shard and one on the second.
func (b *bank) apart(t *testing.T) (here, there int) {
	t.Helper()
	for i, s := range b.c.shards {
		var one struct {
			ID int `bson:"_id"`
		}
		if err := s.Direct().Database("bank").Collection("accounts").FindOne(t.Context(), bson.D{}).Decode(&one); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			here = one.ID
		} else {
			there = one.ID
		}
	}
	return here, there
}

// TestKillInKeyMove: an update outside of a transaction that changes a document's shard key, so
// that another shard owns it, is done once, and its client told so, where the router or one of
// the shards is killed between the commit and the answer.
func TestKillInKeyMove(t *testing.T) {
	c := breakable(t)
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.k"}, {Key: "key", Value: bson.D{{Key: "k", Value: 1}}}})
	c.admin(t, bson.D{{Key: "split", Value: "app.k"}, {Key: "middle", Value: bson.D{{Key: "k", Value: 10}}}})
	c.admin(t, bson.D{{Key: "moveRange", Value: "app.k"}, {Key: "min", Value: bson.D{{Key: "k", Value: bson.MinKey{}}}}, {Key: "toShard", Value: "s0"}})
	c.admin(t, bson.D{{Key: "moveRange", Value: "app.k"}, {Key: "min", Value: bson.D{{Key: "k", Value: 10}}}, {Key: "toShard", Value: "s1"}})
	coll := c.routers[0].Client().Database("app").Collection("k")
	for i, step := range []commitStep{
		{"commitTransaction", 1, "router"}, {"commitTransaction", 1, "coordinator"}, {"commitTransaction", 1, "participant"},
		{"coordinateCommitTransaction", 0, "router"},
	} {
		t.Run(step.request+", "+step.kill, func(t *testing.T) {
			if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "k", Value: i}, {Key: "n", Value: 0}}); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			began := time.Now()
			hangAt(t, c.shards[step.on], step.request, 0)
			go func() {
				r, err := coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "k", Value: i}},
					bson.D{{Key: "$set", Value: bson.D{{Key: "k", Value: 100 + i}}}, {Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
				if err == nil && (r.MatchedCount != 1 || r.ModifiedCount != 1) {
					err = fmt.Errorf("%+v", r)
				}
				ended <- err
			}()
			hangs(t, c.shards[step.on], step.request, ended)
			switch step.kill {
			case "router":
				restart(c.routers[0])
			case "coordinator":
				restart(c.shards[0])
			case "participant":
				restart(c.shards[1])
			}
			if err := <-ended; err != nil {
				t.Errorf("the client is told %v", err)
			}
			if took := time.Since(began); took > 30*time.Second { // and not as long as transactions live
				t.Errorf("it took %v", took)
			}
			var docs []struct{ K, N int }
			until(t, "it is there once", func() error {
				cur, err := coll.Find(t.Context(), bson.D{{Key: "_id", Value: i}})
				if err == nil {
					err = cur.All(t.Context(), &docs)
				}
				if err == nil && (len(docs) != 1 || docs[0].K != 100+i || docs[0].N != 1) {
					err = fmt.Errorf("%+v", docs)
				}
				return err
			})
		})
	}
}
