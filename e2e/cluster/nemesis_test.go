package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	"github.com/mayflydb/mayfly/e2e/hosts"
	"github.com/mayflydb/mayfly/internal/sim"
	"github.com/mayflydb/mayfly/internal/testkit"
)

var nemesisFor = flag.Duration("cluster.nemesis", 20*time.Second, "how long TestNemesisThroughRouters disturbs its cluster")

var nemesisSeed = flag.Int64("cluster.seed", 0, "which disturbances TestNemesisThroughRouters makes, and in which order; 0: by the time")

var nemesisLogs = flag.String("cluster.logs", "", "a directory for the logs of TestNemesisThroughRouters' servers")

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

// nemesis disturbs a cluster of three config servers, two routers, a shard of three members and
// one of one. Each server is a host of its own, and has a disk of its own, where the system lets
// it; else nothing is cut, and no disk is full.
type nemesis struct {
	t       *testing.T
	r       *rand.Rand // of the seed; one goroutine's
	c       *cluster
	network hosts.Network
	apart   bool                 // servers run on its hosts
	sets    [3][]*testkit.Server // the config servers, s0, s1
	number  map[*testkit.Server]int
	disks   map[*testkit.Server]*hosts.Disk
	direct  map[*testkit.Server]*mongo.Client // to each alone
	// reshardedBy says by which of two keys bank.log is sharded.
	reshardedBy int
}

// nemesisHosts are the servers.
const nemesisHosts = 3 + 2 + 3 + 1

// startNemesis starts the cluster, with the shards s0 and s1.
func startNemesis(t *testing.T) *nemesis {
	t.Helper()
	seed := *nemesisSeed
	if seed == 0 {
		seed = time.Now().Unix()
	}
	n := &nemesis{t: t, r: rand.New(rand.NewPCG(uint64(seed), 0)), c: &cluster{}, number: map[*testkit.Server]int{}, disks: map[*testkit.Server]*hosts.Disk{}, direct: map[*testkit.Server]*mongo.Client{}}
	n.network = hosts.New(t, nemesisHosts)
	n.apart = n.network.Apart()
	t.Logf("-cluster.seed=%d", seed)
	n.sets[0] = n.startSet("cfg", "--configsvr", 3)
	n.c.config = n.sets[0][0]
	for range 2 {
		n.c.routers = append(n.c.routers, n.start("", host("cfg", n.sets[0]...)))
	}
	for i, size := range []int{3, 1} {
		name := fmt.Sprintf("s%d", i)
		n.sets[1+i] = n.startSet(name, "--shardsvr", size)
		n.c.shards = append(n.c.shards, n.sets[1+i][0])
		n.c.admin(t, bson.D{{Key: "addShard", Value: host(name, n.sets[1+i]...)}, {Key: "name", Value: name}})
	}
	n.c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	return n
}

// start starts a server on the next host.
func (n *nemesis) start(dir, configdb string, args ...string) (s *testkit.Server) {
	switch {
	case n.apart:
		s = testkit.StartAt(n.t, hosts.Host{Network: n.network, Number: len(n.number)}, dir, configdb, args...)
	case configdb != "":
		s = testkit.StartRouter(n.t, configdb, args...)
	default:
		s = testkit.StartIn(n.t, dir, args...)
	}
	n.number[s] = len(n.number)
	n.direct[s] = s.Direct()
	return s
}

// startSet starts a replica set, and waits until it has a primary.
func (n *nemesis) startSet(name, role string, size int) (members []*testkit.Server) {
	n.t.Helper()
	var list bson.A
	for i := range size {
		dir := n.t.TempDir()
		disk, err := hosts.Mount(dir)
		if err != nil {
			n.t.Logf("no disk that could be full: %v", err)
		}
		s := n.start(dir, "", role, "--replSet", name, "--setParameter", expiresSoon)
		if err == nil {
			n.disks[s] = disk
			n.t.Cleanup(func() { s.Kill(); _ = disk.Unmount() })
		}
		members = append(members, s)
		list = append(list, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: s.Host()}})
	}
	until(n.t, name+" is made", func() error {
		err := n.ask(members[0], nil, bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: name}, {Key: "members", Value: list}}}})
		if code(err) == 23 { // it is, by an attempt that was not answered
			return nil
		}
		return err
	})
	until(n.t, name+" has a primary", func() error {
		if n.primary(members) == nil {
			return errors.New("none")
		}
		return nil
	})
	return members
}

// ask asks one server something, for a second at most.
func (n *nemesis) ask(s *testkit.Server, into any, command bson.D) error {
	ctx, stop := context.WithTimeout(n.t.Context(), time.Second)
	defer stop()
	r := n.direct[s].Database("admin").RunCommand(ctx, command)
	if into == nil {
		return r.Err()
	}
	return r.Decode(into)
}

// primary is the member that says it is; nil for none.
func (n *nemesis) primary(members []*testkit.Server) *testkit.Server {
	for _, m := range members {
		var hello struct{ IsWritablePrimary bool }
		if err := n.ask(m, &hello, bson.D{{Key: "hello", Value: 1}}); err == nil && hello.IsWritablePrimary {
			return m
		}
	}
	return nil
}

// oneOf is the primary of a set or, where there is none, any member.
func (n *nemesis) oneOf(members []*testkit.Server) *testkit.Server {
	if p := n.primary(members); p != nil {
		return p
	}
	return members[n.r.IntN(len(members))]
}

// disturbance is something that happens to the cluster, and ends.
type disturbance struct {
	what string
	do   func() error
}

// disturbances are all kinds.
func (n *nemesis) disturbances() []disturbance {
	config, s0, s1 := n.sets[0], n.sets[1], n.sets[2]
	victim := func() *testkit.Server { return n.oneOf(n.sets[1+n.r.IntN(2)]) }
	router := func() *testkit.Server { return n.c.routers[n.r.IntN(len(n.c.routers))] }
	killed := func(s *testkit.Server, dead time.Duration) error {
		s.Kill()
		time.Sleep(dead)
		s.Run()
		return nil
	}
	all := []disturbance{
		{"kill -9 of a shard's primary", func() error { return killed(victim(), deadTime) }},
		{"SIGSTOP of a shard's primary", func() error {
			s := victim()
			if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil {
				return err
			}
			time.Sleep(deadTime)
			return syscall.Kill(s.PID(), syscall.SIGCONT)
		}},
		{"kill -9 of a router", func() error { return killed(router(), deadTime/3) }},
		{"kill -9 of the config servers' primary", func() error { return killed(n.oneOf(config), deadTime/3) }},
		{"a step-down of a shard", func() error { return n.stepDown(victim()) }},
		{"a step-down of the config servers", func() error { return n.stepDown(n.oneOf(config)) }},
		{"a resharding", func() error {
			key := []bson.D{{{Key: "from", Value: 1}}, {{Key: "_id", Value: "hashed"}}}[n.reshardedBy]
			n.reshardedBy = 1 - n.reshardedBy
			ctx, stop := context.WithTimeout(n.t.Context(), 20*time.Second)
			defer stop()
			return n.direct[n.c.routers[0]].Database("admin").RunCommand(ctx, bson.D{{Key: "reshardCollection", Value: "bank.log"}, {Key: "key", Value: key}}).Err()
		}},
	}
	if n.apart {
		one := func(s *testkit.Server) []int { return n.numbers([]*testkit.Server{s}) }
		others := func(members []*testkit.Server, s *testkit.Server) []int {
			return n.numbers(slices.DeleteFunc(slices.Clone(members), func(m *testkit.Server) bool { return m == s }))
		}
		for _, cut := range []struct {
			what string
			who  func() (a, b []int)
		}{
			{"a router and a shard", func() (a, b []int) { return one(router()), n.numbers(n.sets[1+n.r.IntN(2)]) }},
			{"a router and the config servers", func() (a, b []int) { return one(router()), n.numbers(config) }},
			{"a router and its clients", func() (a, b []int) { return one(router()), []int{nemesisHosts} }},
			{"the shards", func() (a, b []int) { return n.numbers(s0), n.numbers(s1) }},
			{"the config servers and a shard", func() (a, b []int) { return n.numbers(config), n.numbers(n.sets[1+n.r.IntN(2)]) }},
			{"a shard's primary and its set", func() (a, b []int) { p := n.oneOf(s0); return one(p), others(s0, p) }},
			{"the config servers' primary and the others", func() (a, b []int) { p := n.oneOf(config); return one(p), others(config, p) }},
			{"a shard's primary and all others", func() (a, b []int) {
				p := victim()
				return one(p), append(others(slices.Concat(n.c.routers, config, s0, s1), p), nemesisHosts)
			}},
		} {
			for _, way := range []struct {
				what     string
				to, from bool
			}{{"both ways", true, true}, {"from the first", true, false}, {"to the first", false, true}} {
				all = append(all, disturbance{"cut: " + cut.what + ", " + way.what, func() error {
					a, b := cut.who()
					n.cut(a, b, way.to, way.from)
					return nil
				}})
			}
		}
	}
	if len(n.disks) > 0 {
		all = append(all,
			disturbance{"a full disk of a shard's member", func() error { return n.fill(append(slices.Clone(s0), s1...)) }},
			disturbance{"a full disk of a shard's primary", func() error { return n.fill([]*testkit.Server{victim()}) }},
			disturbance{"a full disk of a config server", func() error { return n.fill(config) }},
			disturbance{"a full disk of the config servers' primary", func() error { return n.fill([]*testkit.Server{n.oneOf(config)}) }})
	}
	return all
}

func (n *nemesis) stepDown(s *testkit.Server) error {
	ctx, stop := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer stop()
	return n.direct[s].Database("admin").RunCommand(ctx, bson.D{{Key: "replSetStepDown", Value: 2}, {Key: "secondaryCatchUpPeriodSecs", Value: 1}, {Key: "force", Value: true}}).Err()
}

// numbers are the hosts of servers.
func (n *nemesis) numbers(servers []*testkit.Server) (all []int) {
	for _, s := range servers {
		all = append(all, n.number[s])
	}
	return all
}

// cut cuts the ways from some hosts to others, from those to these, or both, for a while.
func (n *nemesis) cut(some, others []int, to, from bool) {
	var lifts []func()
	for _, a := range some {
		for _, b := range others {
			if to {
				lifts = append(lifts, n.network.Impose(a, b, hosts.Condition{Cut: true}))
			}
			if from {
				lifts = append(lifts, n.network.Impose(b, a, hosts.Condition{Cut: true}))
			}
		}
	}
	time.Sleep(time.Second + time.Duration(n.r.Int64N(int64(deadTime))))
	for _, lift := range lifts {
		lift()
	}
}

// fill makes the disk of one of some servers full for a while. Its process may end by itself.
func (n *nemesis) fill(among []*testkit.Server) error {
	s := among[n.r.IntN(len(among))]
	disk := n.disks[s]
	if disk == nil {
		return nil
	}
	if err := disk.Fill(); err != nil {
		return err
	}
	time.Sleep(deadTime)
	if err := disk.Empty(); err != nil {
		return err
	}
	ping := bson.D{{Key: "ping", Value: 1}}
	err := n.ask(s, nil, ping)
	if err != nil { // once more: a connection may have broken meanwhile
		err = n.ask(s, nil, ping)
	}
	if err != nil {
		n.t.Logf("a process ended, or does not answer, as its disk was full: %s", s.Host())
		s.Kill()
		s.Run()
	}
	return nil
}

// same demands that the members of each set have the same.
func (n *nemesis) same() {
	for _, set := range n.sets {
		until(n.t, "the members of a set have the same", func() error {
			for _, db := range []string{"bank", "app", "config"} {
				var first map[string]string
				for i, m := range set {
					var h struct{ Collections map[string]string }
					if err := n.direct[m].Database(db).RunCommand(n.t.Context(), bson.D{{Key: "dbHash", Value: 1}}).Decode(&h); err != nil {
						return err
					}
					if i == 0 {
						first = h.Collections
					} else if !maps.Equal(first, h.Collections) {
						return fmt.Errorf("%s of %s and %s: %v and %v", db, set[0].Host(), m.Host(), first, h.Collections)
					}
				}
			}
			return nil
		})
	}
}

// moveAnyOf moves a chunk of a collection to another shard.
func (n *nemesis) moveAnyOf(ns string) bool {
	var of struct{ UUID bson.Binary }
	var all []chunk
	ctx, stop := context.WithTimeout(n.t.Context(), operationTime)
	defer stop()
	router := n.direct[n.c.routers[0]]
	config := router.Database("config")
	err := config.Collection("collections").FindOne(ctx, bson.D{{Key: "_id", Value: ns}}).Decode(&of)
	if err == nil {
		var cur *mongo.Cursor
		if cur, err = config.Collection("chunks").Find(ctx, bson.D{{Key: "uuid", Value: of.UUID}}); err == nil {
			err = cur.All(ctx, &all)
		}
	}
	return err == nil && len(all) > 0 && n.c.move(n.t, router, ns, all[rand.IntN(len(all))])
}

// tellRemovals logs what has moved of a collection, and what each shard's log says was removed
// of it: what is missing has gone by one of those.
func (n *nemesis) tellRemovals(ns string) {
	tell := func(who string, s *testkit.Server, db, coll string, filter bson.D) {
		cur, err := n.direct[s].Database(db).Collection(coll).Find(n.t.Context(), filter)
		if err != nil {
			n.t.Logf("%s: %v", who, err)
			return
		}
		defer cur.Close(n.t.Context())
		for cur.Next(n.t.Context()) {
			n.t.Logf("%s: %s", who, cur.Current)
		}
	}
	tell("config", n.c.config, "config", "changelog", bson.D{{Key: "ns", Value: ns}})
	for i, s := range n.c.shards {
		tell(fmt.Sprintf("s%d", i), s, "local", "oplog.rs", bson.D{{Key: "ns", Value: ns}, {Key: "op", Value: "d"}})
	}
}

// noteworthy are the ids of lines of servers' logs that each run is asked about: a job that
// receives or removes documents of the cluster has failed, as where what it would remove is
// shown, or is received no more; a collection is missing; a shard rejects what must succeed.
var noteworthy = []string{"9000040", "9000041", "9000602"}

// tellLogs logs the noteworthy lines of all servers' logs, and keeps the logs where
// -cluster.logs says.
func (n *nemesis) tellLogs() {
	for s, i := range n.number {
		out := s.Printed()
		for line := range strings.Lines(out) {
			if slices.ContainsFunc(noteworthy, func(id string) bool { return strings.Contains(line, `"id":`+id) }) || strings.Contains(line, "invariant broken") || strings.HasPrefix(line, "panic:") {
				n.t.Logf("server %d: %s", i, strings.TrimSpace(line))
			}
		}
		if *nemesisLogs != "" {
			if err := os.WriteFile(filepath.Join(*nemesisLogs, fmt.Sprintf("%d.log", i)), []byte(out), 0o666); err != nil {
				n.t.Error(err)
			}
		}
	}
}

// TestNemesisThroughRouters: a bank, lists, registers and watchers of a change stream through two
// routers, while parts of the cluster are killed, stopped, stepped down and cut off from each
// other, disks are full, chunks move, and a collection is resharded. Snapshot isolation and
// linearizability hold by the checkers, nothing acknowledged is lost, each event comes once and
// in order, and in the end all members of a set have the same.
func TestNemesisThroughRouters(t *testing.T) {
	if !hosts.Inside(t) {
		return
	}
	n := startNemesis(t)
	defer n.tellLogs()
	c := n.c
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

	routers := []*mongo.Client{c.routers[0].Client(), c.routers[1].Client()}
	watching, end := context.WithCancel(t.Context())
	defer end()
	var readers, writers sync.WaitGroup
	h := &history{all: map[string]*told{}}
	f := &follower{routers: routers, seen: map[string][]string{}, tokens: map[string][]string{}}
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
			h.write(t, working, routers[i].Database("app").Collection("s", majority), fmt.Sprint(i))
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
			if n.moveAnyOf(ns) {
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
	plan := n.disturbances()
	happened := map[string]int{}
	for time.Since(begun) < *nemesisFor && !lost.Load() {
		for _, i := range n.r.Perm(len(plan)) { // each kind once, and again
			if time.Since(begun) >= *nemesisFor || lost.Load() {
				break
			}
			d := plan[i]
			t.Logf("%6.1f s: %s", time.Since(begun).Seconds(), d.what)
			if err := d.do(); err != nil {
				t.Logf("%s: %v", d.what, err)
			}
			happened[d.what]++
			time.Sleep(time.Second + time.Duration(n.r.Int64N(int64(time.Second))))
		}
	}
	stop()
	writers.Wait()
	h.clients.Wait()
	until(t, "the sets have primaries", func() error {
		c.config, c.shards[0], c.shards[1] = n.primary(n.sets[0]), n.primary(n.sets[1]), n.primary(n.sets[2])
		if c.config == nil || c.shards[0] == nil || c.shards[1] == nil {
			return errors.New("not all")
		}
		return nil
	})
	transfers := b.judge(t)
	x.judge(t)
	g.judge(t)
	until(t, "the follower has seen all", func() error { return h.judge(f) })
	end()
	readers.Wait()
	if err := h.judge(f); err != nil {
		t.Error(err)
	}
	n.same()
	if t.Failed() {
		n.tellRemovals("bank.accounts")
		n.tellRemovals("app.lists")
	}
	t.Logf("%d disturbances of %d kinds; %d moves; %d transfers, %d sums, %d documents watched by %d streams", len(happened), len(plan), moves.Load(), transfers, reads, len(h.all), f.opened)
	if transfers < 10 || reads < 3 || len(h.all) < 10 || moves.Load() == 0 {
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
