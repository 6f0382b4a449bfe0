package clustersim

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/server"
	"github.com/mayflydb/mayfly/internal/sim"
	"github.com/mayflydb/mayfly/internal/storage"
)

var (
	seeds = flag.Int("seeds", 60, "how many seeds are simulated")
	from  = flag.Uint64("first-seed", 1, "the first seed")
	// doubled is percents of the requests that may come twice (doubles): with 250 each of them comes
	// two or three times more.
	doubled = flag.Int("doubled", 12, "how many of a hundred requests come again, late")
	logs    = flag.String("logs", "", "a directory for the logs of the processes of a seed that fails")
)

var (
	shards      = []string{"s0", "s1", "s2"}
	routers     = []string{"r0", "r1"}
	collections = []string{"registers", "lists", "still"}
)

// stillDocs are the documents of app.still, which nobody changes.
const stillDocs = 40

// world is a cluster in virtual time, from one seed.
type world struct {
	t       *testing.T
	seed    uint64
	dir     string
	net     *network
	rng     *rand.Rand // of what happens to the cluster
	all     []*process
	doubled sync.WaitGroup
	bug     bug
	begun   time.Time
	of3     bool                // shards are sets of three members
	members map[string][]string // of shards, by their names

	mu        sync.Mutex
	failure   error
	calm      bool
	value     int
	registers []sim.RegisterOp
	lists     []sim.ListTxn
	outcomes  [sim.Unknown + 1]int
	scans     int
	moves     int
	undone    int
	doubles   int
	cameAgain map[string]bool // retryable statements, by statementOf, that are done a second time
	crashes   int
	resharded int
	indexed   int
	drained   int
	watched   *watcher // nil for none
	errors    map[string]int
}

// tell counts an error of a client. The caller holds mu.
func (w *world) tell(err error) {
	if err == nil {
		return
	}
	w.errors[fmt.Sprint(mongoerr.From(err).Code)]++
}

func (w *world) failLocked(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf("after %v: %s", time.Since(w.begun), fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure != nil
}

func (w *world) now() int64 { return time.Since(w.begun).Nanoseconds() }

func (w *world) nextValue() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.value++
	return w.value
}

func (w *world) add(name string, args ...string) {
	p := &process{t: w.t, net: w.net, name: name, args: args, logs: w.dir}
	if name[0] != 'r' {
		p.fs = storage.NewMemFS()
		if err := makeDurable(p.fs, w.dir); err != nil {
			w.t.Fatal(err)
		}
	}
	p.wrap = func(l *life, d server.Dispatcher) server.Dispatcher { return &inTheWay{w: w, p: p, life: l, next: d} }
	p.start()
	w.all = append(w.all, p)
}

// makeDurable makes a directory that a loss of power does not take away.
func makeDurable(fs *storage.MemFS, dir string) error {
	err := fs.MkdirAll(dir, 0o755)
	for ; err == nil; dir = fs.PathDir(dir) {
		d, e := fs.OpenDir(dir)
		if err = e; err == nil {
			err = errors.Join(d.Sync(), d.Close())
		}
		if dir == "/" {
			break
		}
	}
	return err
}

// must runs a command until it succeeds; of a shard on its primary.
func (a *agent) must(to, db, text string) bson.Doc {
	var err error
	for range 100 {
		at := to
		if members := a.w.members[to]; len(members) > 0 {
			at = a.primary(members)
		}
		var reply bson.Doc
		if reply, err = a.run(at, db, bson.MustParse(text)); err == nil {
			return reply
		}
		time.Sleep(500 * time.Millisecond)
	}
	a.w.fail("%s does not succeed on %s: %v", text, to, err)
	return bson.Empty
}

// primary is the first of some members that takes writes, else the first of all.
func (a *agent) primary(members []string) string {
	for _, m := range members {
		if reply, err := a.run(m, "admin", new(bson.Builder).Int32("hello", 1).Finish()); err == nil && reply.Lookup("isWritablePrimary").Truthy() {
			return m
		}
	}
	return members[0]
}

// addShardServers starts the members of a shard, and returns its connection string.
func (w *world) addShardServers(a *agent, name string) string {
	if !w.of3 {
		w.add(name, "--replSet", name, "--shardsvr", "--initiate")
		w.members[name] = []string{name}
		return name + "/" + name + ":" + port
	}
	var hosts []string
	list := new(bson.Builder).OpenDoc("replSetInitiate").String("_id", name).OpenArray("members")
	for i, suffix := range []string{"a", "b", "c"} {
		w.add(name+suffix, "--replSet", name, "--shardsvr")
		w.members[name] = append(w.members[name], name+suffix)
		hosts = append(hosts, name+suffix+":"+port)
		list.OpenDoc(bson.Index(i)).Int32("_id", int32(i)).String("host", hosts[i]).Close()
	}
	if _, err := a.run(name+"a", "admin", list.Close().Close().Finish()); err != nil {
		w.fail("%v", err)
	}
	return name + "/" + strings.Join(hosts, ",")
}

// found cluster: config servers, shards, routers, and what clients use.
func (w *world) found() {
	w.add("cfg", "--replSet", "cfg", "--configsvr", "--initiate")
	a := w.agent("founder", 1)
	defer a.close()
	w.members = map[string][]string{}
	at := map[string]string{}
	for _, name := range shards {
		at[name] = w.addShardServers(a, name)
	}
	for _, name := range routers {
		w.add(name, "--configdb", "cfg/cfg:"+port)
	}
	for _, name := range shards {
		a.must("r0", "admin", fmt.Sprintf(`{addShard: %q, name: %q}`, at[name], name))
	}
	a.must("r0", "admin", `{balancerStop: 1}`)
	for _, name := range collections {
		a.must("r0", "admin", fmt.Sprintf(`{shardCollection: "app.%s", key: {_id: "hashed"}}`, name))
	}
	docs := new(bson.Builder).String("insert", "still").OpenArray("documents")
	for i := range stillDocs {
		docs.OpenDoc(bson.Index(i)).Int32("_id", int32(i)).Close()
	}
	if _, err := a.run("r0", "app", docs.Close().OpenDoc("writeConcern").String("w", "majority").Close().Finish()); err != nil {
		w.fail("%v", err)
	}
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64, b bug) *world { return simulateWith(t, seed, b, false) }

func simulateWith(t *testing.T, seed uint64, b bug, of3 bool) (w *world) {
	w = &world{seed: seed, dir: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 2)), bug: b, of3: of3, errors: map[string]int{}}
	synctest.Test(t, func(t *testing.T) {
		w.t, w.begun, w.net = t, time.Now(), newNetwork(seed)
		w.found()
		w.live()
		w.judge()
		for _, p := range w.all {
			p.end()
		}
		w.doubled.Wait()
	})
	return w
}

// lifetime is for how long clients work.
const lifetime = 8 * time.Second

// live has clients work while things happen.
func (w *world) live() {
	var working sync.WaitGroup
	until := time.Now().Add(lifetime)
	work := func(name string, purpose uint64, pause time.Duration, do func(a *agent)) {
		working.Go(func() {
			a := w.agent(name, purpose)
			defer a.close()
			for time.Now().Before(until) && !w.failed() {
				do(a)
				time.Sleep(time.Duration(a.rng.Int64N(int64(2 * pause))))
			}
		})
	}
	if w.seed%3 == 0 {
		w.watched = w.watcher()
		for range 100 { // so that it is open before anything is appended
			if w.watched.step(); w.watched.opened > 0 {
				break
			}
		}
		working.Go(func() {
			for time.Now().Before(until) && !w.failed() {
				w.watched.step()
			}
		})
	}
	for i := range 3 {
		work(fmt.Sprint("register", i), uint64(10+i), 200*time.Millisecond, func(a *agent) { a.register(i) })
		work(fmt.Sprint("list", i), uint64(20+i), 200*time.Millisecond, func(a *agent) { a.transact() })
	}
	work("scan", 30, 300*time.Millisecond, (*agent).scan)
	for i := range 2 {
		work(fmt.Sprint("move", i), uint64(40+i), 300*time.Millisecond, (*agent).move)
	}
	switch w.seed % 4 { // what may last long
	case 0:
		work("reshard", 70, 400*time.Millisecond, (*agent).reshard)
	case 1:
		work("index", 71, 200*time.Millisecond, (*agent).index)
	case 2:
		work("drain", 72, 500*time.Millisecond, (*agent).drain)
	}
	work("kill", 50, 60*time.Millisecond, (*agent).killMove)
	for time.Now().Before(until) && !w.failed() {
		time.Sleep(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
		w.disturb()
	}
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.net.calm()
	working.Wait()
}

// disturb has one thing happen.
func (w *world) disturb() {
	p := w.all[w.rng.IntN(len(w.all))]
	long := time.Duration(w.rng.IntN(3000)) * time.Millisecond
	if w.rng.IntN(3) == 0 {
		long = time.Duration(w.rng.IntN(50)) * time.Millisecond
	}
	switch w.rng.IntN(7) {
	case 0, 1, 2: // of all that was not synced some is left, or nothing, or all
		p.crash([]int{0, 50, 100}[w.rng.IntN(3)], w.rng)
		w.crashes++
		time.Sleep(long)
		p.start()
	case 3: // cut from one other, in one direction or both
		o := w.all[w.rng.IntN(len(w.all))]
		w.net.cutOff(p.name, o.name)
		if w.rng.IntN(2) == 0 {
			w.net.cutOff(o.name, p.name)
		}
		time.Sleep(long)
		w.net.heal(w.rng.IntN(2) == 0)
	case 4: // cut from all, in both directions
		for _, o := range w.all {
			w.net.cutOff(p.name, o.name)
			w.net.cutOff(o.name, p.name)
		}
		time.Sleep(long)
		w.net.heal(w.rng.IntN(2) == 0)
	case 5: // a bad network
		w.net.trouble(float64(w.rng.IntN(4)), float64(w.rng.IntN(8)))
		time.Sleep(2 * long)
		w.net.trouble(0, 0)
	case 6: // a clock jumps
		p.jump(time.Duration(w.rng.IntN(20000)-5000) * time.Millisecond)
	}
}

// judge waits until nothing is under way, and holds what clients were told against what is
// there.
func (w *world) judge() {
	if w.failed() {
		return
	}
	a := w.agent("judge", 3)
	defer a.close()
	if w.seed%4 == 2 {
		w.endDrains(a)
	}
	idle := func() bool {
		reply := a.must("r0", "config", `{find: "operations", filter: {_id: {$ne: "last"}}}`)
		return len(first(reply)) == 0
	}
	for i := 0; !idle(); i++ {
		if i > 200 {
			w.fail("an operation does not end: %s", first(a.must("r0", "config", `{find: "operations"}`)))
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	for _, s := range shards {
		for i := 0; ; i++ {
			tx := a.must(s, "admin", `{serverStatus: 1}`).Lookup("transactions").Doc()
			n := bson.ClampToInt64(tx.Lookup("currentPrepared"))
			if n == 0 {
				break
			}
			if i > 200 {
				w.fail("%s has %d prepared transactions that nobody decides", s, n)
				return
			}
			time.Sleep(500 * time.Millisecond)
		}
	}
	for _, s := range shards {
		for i := 0; ; i++ {
			left := first(a.must(s, "config", `{find: "receiving"}`))
			if len(left) == 0 {
				break
			}
			if i > 50 {
				w.fail("%s receives for ever: %s", s, left)
				return
			}
			time.Sleep(500 * time.Millisecond)
		}
	}
	for i := range stillDocs { // nothing is blocked any more
		a.must("r1", "app", fmt.Sprintf(`{update: "still", updates: [{q: {_id: %d}, u: {$unset: {x: 1}}}]}`, i))
	}
	if w.failed() {
		return
	}
	w.judgePlaces(a)
	w.judgeIndexes(a)
	var lists [keys][]int
	last := sim.ListTxn{Call: w.now()}
	for k := range keys {
		docs := first(a.must("r0", "app", fmt.Sprintf(`{find: "lists", filter: {_id: %d}}`, k)))
		lists[k] = listOf(docs)
		last.Ops = append(last.Ops, sim.ListOp{Key: k, List: lists[k]})
		op := sim.RegisterOp{Client: 99, Key: k, Kind: sim.Read, Call: w.now()}
		for _, d := range first(a.must("r1", "app", fmt.Sprintf(`{find: "registers", filter: {_id: %d}, readConcern: {level: "linearizable"}}`, k))) {
			op.Value = int(bson.ClampToInt64(d.Lookup("v")))
		}
		op.Return = w.now()
		w.registers = append(w.registers, op)
	}
	last.Return = w.now()
	if a := sim.CheckSnapshotLists(append(w.lists, last)); a != nil {
		w.fail("%v", a)
	}
	if err := sim.CheckRegisters(w.registers, 10*time.Second); err != nil {
		w.fail("%v", err)
	}
	if w.watched != nil && !w.failed() {
		w.watched.judge(lists)
		w.watched.a.close()
	}
}

// judgePlaces holds that each document is shown by one shard, and by the router once: invariants
// ShardOwnershipConsistent and UniqueKeysReturned of the public specification MoveRange.
func (w *world) judgePlaces(a *agent) {
	for _, name := range collections {
		shown := map[string]string{}
		for _, s := range shards {
			for _, d := range first(a.must(s, "app", fmt.Sprintf(`{find: %q, batchSize: 10000}`, name))) {
				id := d.Lookup("_id").String()
				if o := shown[id]; o != "" {
					w.fail("ShardOwnershipConsistent: %s %s is shown by %s and %s", name, id, o, s)
				}
				shown[id] = s
			}
		}
		through := first(a.must("r1", "app", fmt.Sprintf(`{find: %q, batchSize: 10000}`, name)))
		returned := map[string]bool{}
		for _, d := range through {
			id := d.Lookup("_id").String()
			if returned[id] {
				w.fail("UniqueKeysReturned: %s %s comes twice", name, id)
			}
			returned[id] = true
		}
		if len(through) != len(shown) {
			w.fail("%s has %d documents through a router, and %d on shards: %v", name, len(through), len(shown), shown)
		}
		if name == "still" {
			if err := eachOnce(through); err != nil {
				w.fail("at the end: %v", err)
			}
		}
	}
}

// TestCluster simulates seeds.
func TestCluster(t *testing.T) {
	began := time.Now()
	var moves, undone, scans, doubles, crashes, registers, resharded, indexed, drained, events int
	var outcomes [sim.Unknown + 1]int
	codes := map[string]int{}
	for i := range *seeds {
		seed := *from + uint64(i)
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			at := time.Now()
			w := simulate(t, seed, noBug)
			if testing.Verbose() {
				t.Logf("%v: %d moves, %d killed, %d scans, lists %v, %d registers, %d crashes, %d doubled, %+v", time.Since(at), w.moves, w.undone, w.scans, w.outcomes, len(w.registers), w.crashes, w.doubles, w.net.stats)
			}
			if w.failure != nil {
				if *logs != "" {
					_ = os.CopyFS(fmt.Sprintf("%s/%d", *logs, seed), os.DirFS(w.dir))
				}
				t.Error(w.failure)
			}
			moves, undone, scans, doubles, crashes, registers = moves+w.moves, undone+w.undone, scans+w.scans, doubles+w.doubles, crashes+w.crashes, registers+len(w.registers)
			resharded, indexed, drained = resharded+w.resharded, indexed+w.indexed, drained+w.drained
			if w.watched != nil {
				events += w.watched.events
			}
			for o, n := range w.outcomes {
				outcomes[o] += n
			}
			for c, n := range w.errors {
				codes[c] += n
			}
		}) {
			break
		}
	}
	t.Logf("%v: %d moves, %d killed, %d scans, lists %v, %d registers, %d crashes, %d doubled requests, %d resharded, %d indexes, %d drains, %d events, errors %v",
		time.Since(began), moves, undone, scans, outcomes, registers, crashes, doubles, resharded, indexed, drained, events, codes)
}

// TestBugsAreFound plants bugs, each of which a seed has to find.
func TestBugsAreFound(t *testing.T) {
	for b, name := range map[bug]string{
		bugUnblocked: "commit without the critical section", bugStale: "stale versions accepted", bugTruncated: "a log that tells less than there is", bugEarly: "removed before the commit", bugGoesOn: "receives after it was given up",
		bugHalf: "ok before it has committed", bugYes: "yes by who cannot prepare",
		bugSilent: "a stream that leaves an event out", bugDonates: "a donor of a resharding that leaves a document out", bugIndexes: "an index that one shard does not make",
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 60; seed++ {
				if w := simulate(t, seed, b); w.failure != nil {
					t.Logf("seed %d: %.300s", seed, w.failure.Error())
					return
				}
			}
			t.Error("it is not found")
		})
	}
}

var sets = flag.Int("sets", 3, "how many seeds are simulated with shards of three members")

// TestClusterOfSets simulates seeds with shards that are sets of three members: what is lost with
// a crash is a primary, which others follow, and which may believe for a while that it still is.
func TestClusterOfSets(t *testing.T) {
	for i := range *sets {
		seed := *from + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			at := time.Now()
			w := simulateWith(t, seed, noBug, true)
			t.Logf("%v: %d moves, %d killed, %d scans, lists %v, %d registers, %d crashes, %d doubled, errors %v", time.Since(at), w.moves, w.undone, w.scans, w.outcomes, len(w.registers), w.crashes, w.doubles, w.errors)
			if w.failure != nil {
				if *logs != "" {
					_ = os.CopyFS(fmt.Sprintf("%s/%d", *logs, seed), os.DirFS(w.dir))
				}
				t.Error(w.failure)
			}
		})
	}
}
