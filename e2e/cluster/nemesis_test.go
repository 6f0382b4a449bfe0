package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mayflydb/mayfly/e2e/histories"
	"github.com/mayflydb/mayfly/internal/sim"
	"github.com/mayflydb/mayfly/internal/testkit"
)

var nemesisFor = flag.Duration("cluster.nemesis", 20*time.Second, "how long TestNemesisThroughRouters disturbs its cluster")

const (
	// groupKeys are the lists, or registers, that clients meet in, and groupMost how many
	// operations do so: what the checkers compare grows with the square.
	groupKeys, groupMost = 4, 200
	// operationTime bounds an operation, retries included.
	operationTime = 15 * time.Second
)

// lists are append-only lists that transactions append to and read.
type lists struct {
	histories.ListTransactions
	bad map[string]int // errors, by their text
}

func openLists(client *mongo.Client, coll *mongo.Collection) *lists {
	x := &lists{ListTransactions: histories.ListTransactions{Client: client, Coll: coll, Keys: groupKeys, Most: groupMost, Patience: operationTime, Stale: true}, bad: map[string]int{}}
	x.Failed = func(err error) { x.bad[fmt.Sprint(code(err))]++ }
	x.Begin()
	return x
}

func (x *lists) judge(t *testing.T) {
	t.Helper()
	done := x.Check(t.Context(), func(group int, what any) { t.Errorf("lists of group %d: %v", group, what) })
	t.Logf("lists: %d transactions committed, %d aborted, %d unknown; errors by code: %v", done[sim.Committed], done[sim.Aborted], done[sim.Unknown], x.bad)
	if done[sim.Committed] < 10 {
		t.Error("lists: too few transactions were committed")
	}
}

// registers are documents of one value that clients read (linearizable), write, and compare and
// set. The answers must be linearizable.
type registers struct {
	reads, writes *mongo.Collection
	begun         time.Time
	value         atomic.Int64

	mu      sync.Mutex
	asked   int
	history []sim.RegisterOp
	bad     map[string]int // errors, by their text
}

func (g *registers) now() int64 { return time.Since(g.begun).Nanoseconds() }

// next is the group of registers that the next operation is about.
func (g *registers) next() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	return (g.asked - 1) / groupMost
}

func (g *registers) operate(ctx context.Context, client int) {
	op := sim.RegisterOp{Client: client, Key: g.next()*groupKeys + rand.IntN(groupKeys), Kind: sim.RegisterKind(rand.IntN(3)), To: int(g.value.Add(1))}
	if op.From = op.To - 1 - rand.IntN(4); op.Kind == sim.Swap && op.From <= 0 { // the document may not be there yet
		op.Kind = sim.Write
	}
	op.Call = g.now()
	err := g.do(ctx, &op)
	op.Return = g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if op.Unknown = err != nil; err != nil {
		if g.bad[fmt.Sprint(code(err))]++; op.Kind == sim.Read {
			return
		}
	}
	g.history = append(g.history, op)
}

func (g *registers) do(ctx context.Context, op *sim.RegisterOp) (err error) {
	ctx, stop := context.WithTimeout(ctx, operationTime)
	defer stop()
	id, set := bson.E{Key: "_id", Value: op.Key}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: op.To}}}}
	switch op.Kind {
	case sim.Read:
		var d struct{ V int }
		err = g.reads.FindOne(ctx, bson.D{id}).Decode(&d)
		op.Value = d.V
	case sim.Write:
		_, err = g.writes.UpdateOne(ctx, bson.D{id}, set, options.UpdateOne().SetUpsert(true))
	case sim.Swap:
		err = g.writes.FindOneAndUpdate(ctx, bson.D{id, {Key: "v", Value: op.From}}, set).Err()
		op.Swapped = err == nil
	}
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = nil
	}
	return err
}

func (g *registers) judge(t *testing.T) {
	t.Helper()
	unknown := 0
	for _, op := range g.history {
		if op.Unknown {
			unknown++
		}
	}
	t.Logf("registers: %d operations, %d with an unknown outcome; errors by code: %v", len(g.history), unknown, g.bad)
	if err := sim.CheckRegisters(g.history, time.Minute); err != nil {
		t.Error(err)
	}
	if len(g.history)-unknown < 10 {
		t.Error("registers: too few outcomes are known")
	}
}

// disturbance is something that happens to the cluster, and ends.
type disturbance struct {
	what string
	do   func() error
}

// disturbances are those of the cluster: sets are those of its shards.
func (c *cluster) disturbances(t *testing.T, sets [][]*testkit.Server) []disturbance {
	admin := func(s *testkit.Server, command bson.D) error {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		return s.Client().Database("admin").RunCommand(ctx, command).Err()
	}
	victim := func() *testkit.Server {
		set := sets[rand.IntN(len(sets))]
		if p := primary(t, set); p != nil {
			return p
		}
		return set[rand.IntN(len(set))]
	}
	resharded := false
	return []disturbance{
		{"kill -9 of a shard's primary", func() error {
			s := victim()
			s.Kill()
			time.Sleep(deadTime)
			s.Run()
			return nil
		}},
		{"SIGSTOP of a shard's primary", func() error {
			s := victim()
			if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil {
				return err
			}
			time.Sleep(deadTime)
			return syscall.Kill(s.PID(), syscall.SIGCONT)
		}},
		{"kill -9 of a router", func() error {
			s := c.routers[rand.IntN(len(c.routers))]
			s.Kill()
			time.Sleep(deadTime / 3)
			s.Run()
			return nil
		}},
		{"kill -9 of the config server", func() error {
			c.config.Kill()
			time.Sleep(deadTime / 3)
			c.config.Run()
			return nil
		}},
		{"a step-down", func() error {
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			return victim().Direct().Database("admin").RunCommand(ctx, bson.D{{Key: "replSetStepDown", Value: 2}, {Key: "secondaryCatchUpPeriodSecs", Value: 1}, {Key: "force", Value: true}}).Err()
		}},
		{"a resharding", func() error {
			key := bson.D{{Key: "from", Value: 1}}
			if resharded {
				key = bson.D{{Key: "_id", Value: "hashed"}}
			}
			resharded = !resharded
			return admin(c.routers[0], bson.D{{Key: "reshardCollection", Value: "bank.log"}, {Key: "key", Value: key}})
		}},
	}
}

// moveAnyOf moves a chunk of one of some collections to another shard.
func (c *cluster) moveAnyOf(t *testing.T, ns string) bool {
	var of struct{ UUID bson.Binary }
	var all []chunk
	ctx, stop := context.WithTimeout(t.Context(), operationTime)
	defer stop()
	config := c.routers[0].Client().Database("config")
	err := config.Collection("collections").FindOne(ctx, bson.D{{Key: "_id", Value: ns}}).Decode(&of)
	if err == nil {
		var cur *mongo.Cursor
		if cur, err = config.Collection("chunks").Find(ctx, bson.D{{Key: "uuid", Value: of.UUID}}); err == nil {
			err = cur.All(ctx, &all)
		}
	}
	return err == nil && len(all) > 0 && c.move(t, c.routers[0].Client(), ns, all[rand.IntN(len(all))])
}

// tellRemovals logs what has moved of a collection, and what each shard's log says was removed
// of it: what is missing has gone by one of those.
func (c *cluster) tellRemovals(t *testing.T, ns string) {
	tell := func(who string, s *testkit.Server, db, coll string, filter bson.D) {
		cur, err := s.Direct().Database(db).Collection(coll).Find(t.Context(), filter)
		if err != nil {
			t.Logf("%s: %v", who, err)
			return
		}
		defer cur.Close(t.Context())
		for cur.Next(t.Context()) {
			t.Logf("%s: %s", who, cur.Current)
		}
	}
	tell("config", c.config, "config", "changelog", bson.D{{Key: "ns", Value: ns}})
	for i, s := range c.shards {
		tell(fmt.Sprintf("s%d", i), s, "local", "oplog.rs", bson.D{{Key: "ns", Value: ns}, {Key: "op", Value: "d"}})
	}
}

// TestNemesisThroughRouters: a bank, lists, registers and watchers of a change stream through two
// routers, while parts of the cluster are killed, stopped and stepped down, chunks move, and a
// collection is resharded. Snapshot isolation and linearizability hold by the checkers, nothing
// acknowledged is lost, and each event comes once and in order.
func TestNemesisThroughRouters(t *testing.T) {
	c := &cluster{config: testkit.Start(t, "--configsvr", "--replSet", "cfg", "--initiate")}
	for range 2 {
		c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", c.config)))
	}
	members := startThree(t, "s0", "--shardsvr")
	c.shards = slices.Clone(members[:1])
	c.admin(t, bson.D{{Key: "addShard", Value: host("s0", members...)}, {Key: "name", Value: "s0"}})
	c.addShard(t, 1)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	b := openBank(t, c)
	for ns, key := range map[string]string{"app.s": "k", "app.lists": "_id", "app.registers": "_id"} {
		c.admin(t, bson.D{{Key: "shardCollection", Value: ns}, {Key: "key", Value: bson.D{{Key: key, Value: "hashed"}}}})
	}
	db := b.client.Database("app")
	if _, err := db.Collection("s").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)}); err != nil {
		t.Fatal(err)
	}
	majority := options.Collection().SetWriteConcern(writeconcern.Majority())
	begun := time.Now()
	x := openLists(b.client, db.Collection("lists"))
	g := &registers{begun: begun, bad: map[string]int{}, writes: db.Collection("registers", majority), reads: db.Collection("registers", options.Collection().SetReadConcern(readconcern.Linearizable()))}

	watching, end := context.WithCancel(t.Context())
	defer end()
	var readers, writers sync.WaitGroup
	h := &history{all: map[string]*told{}}
	f := &follower{routers: c.routers, seen: map[string][]string{}, tokens: map[string][]string{}}
	readers.Go(func() { f.followThrough(watching) })
	until(t, "the follower watches", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.opened == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	working, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range 2 {
		writers.Go(func() { b.work(working, t, uint64(i+1)) })
		h.clients.Go(func() {
			h.write(t, working, c.routers[i].Client().Database("app").Collection("s", majority), fmt.Sprint(i))
		})
	}
	for i := range 3 {
		writers.Go(func() {
			for working.Err() == nil {
				x.Transact(context.WithoutCancel(working))
				time.Sleep(time.Millisecond)
			}
		})
		writers.Go(func() {
			for working.Err() == nil {
				g.operate(context.WithoutCancel(working), i)
				time.Sleep(3 * time.Millisecond)
			}
		})
	}
	var moves atomic.Int64
	var lost atomic.Bool
	reads := 0
	writers.Go(func() {
		for working.Err() == nil {
			ns := []string{"app.s", "app.lists", "app.registers", "bank.accounts"}[rand.IntN(4)]
			if c.moveAnyOf(t, ns) {
				moves.Add(1)
			}
			time.Sleep(300 * time.Millisecond)
		}
	})
	writers.Go(func() {
		for working.Err() == nil {
			limited, cancel := context.WithTimeout(context.WithoutCancel(working), operationTime)
			sum, err := b.total(limited)
			cancel()
			if err != nil {
				continue
			}
			if reads++; sum != accountCount*balance {
				t.Errorf("a reader at one time sees %d, not %d", sum, accountCount*balance)
				lost.Store(true)
				return
			}
		}
	})
	sets := [][]*testkit.Server{members, {c.shards[1]}}
	plan := c.disturbances(t, sets)
	happened := map[string]int{}
	for i := 0; time.Since(begun) < *nemesisFor && !lost.Load(); i++ {
		d := plan[i%len(plan)]
		if i >= len(plan) {
			d = plan[rand.IntN(len(plan))]
		}
		if err := d.do(); err != nil {
			t.Logf("%s: %v", d.what, err)
		}
		happened[d.what]++
		time.Sleep(time.Duration(1+rand.IntN(2)) * time.Second)
	}
	stop()
	writers.Wait()
	h.clients.Wait()
	until(t, "s0 has a primary", func() error {
		if c.shards[0] = primary(t, members); c.shards[0] == nil {
			return errors.New("none")
		}
		return nil
	})
	n := b.judge(t)
	x.judge(t)
	g.judge(t)
	until(t, "the follower has seen all", func() error { return h.judge(f) })
	end()
	readers.Wait()
	if err := h.judge(f); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		c.tellRemovals(t, "bank.accounts")
		c.tellRemovals(t, "app.lists")
	}
	t.Logf("%v; %d moves; %d transfers, %d sums, %d documents watched by %d streams", happened, moves.Load(), n, reads, len(h.all), f.opened)
	if n < 10 || reads < 3 || len(h.all) < 10 || moves.Load() == 0 {
		t.Error("that is too little")
	}
}

// followThrough is follow where routers are killed: what the network says is no matter of the
// stream.
func (f *follower) followThrough(ctx context.Context) {
	var token bson.Raw
	for ctx.Err() == nil {
		err := f.read(ctx, &token)
		if err == nil || ctx.Err() != nil {
			continue
		}
		var selection interface{ Unwrap() error }
		var resumable mongo.LabeledError
		if mongo.IsNetworkError(err) || mongo.IsTimeout(err) || errors.As(err, &resumable) && resumable.HasErrorLabel("ResumableChangeStreamError") || code(err) == 0 && errors.As(err, &selection) {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		f.mu.Lock()
		f.failed = err
		f.mu.Unlock()
		return
	}
}
