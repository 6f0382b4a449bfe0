package shardsvr_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// member is a shard of one member in this process.
type member struct {
	t    testing.TB
	set  *client.Set
	host string
}

func start(t testing.TB, name string, options ...string) *member {
	t.Helper()
	port := servertest.FreePort(t)
	s := servertest.Start(t, append([]string{"--port", fmt.Sprint(port), "--replSet", name, "--shardsvr", "--initiate", "--advertise", fmt.Sprintf("127.0.0.1:%d", port)}, options...)...)
	m := &member{t: t, host: name + "/" + s.Address}
	at, err := client.ParseSetString(m.host)
	if err != nil {
		t.Fatal(err)
	}
	m.set = client.OpenSet(at, client.Options{AppName: "test"}, new(client.Clock))
	t.Cleanup(m.set.Close)
	return m
}

// try runs a command.
func (m *member) try(db, text string) (bson.Doc, error) {
	a, err := m.set.Run(m.t.Context(), client.Call{DB: db, Body: bson.MustParse(text)})
	return a.Reply, err
}

// ask runs a command that succeeds.
func (m *member) ask(db, text string) bson.Doc {
	m.t.Helper()
	reply, err := m.try(db, text)
	if err == nil && reply.Has("writeErrors") {
		err = mongoerr.New(mongoerr.InternalError, "%s", reply)
	}
	if err != nil {
		m.t.Fatalf("%s: %v", text, err)
	}
	return reply
}

// fence is the field operation of a request.
func fence(number int64, phase step.Phase, seq int32) string {
	var b bson.Builder
	step.Fence{Number: number, Phase: phase, Term: 1, Seq: seq}.Append(&b)
	text := b.Finish().String()
	return strings.TrimSuffix(strings.TrimPrefix(text, "{ "), " }")
}

const (
	generation = `{e: {"$oid": "0102030405060708090a0b0c"}, t: {"$timestamp": {t: 9, i: 1}}, v: {"$timestamp": {t: %d, i: 0}}}`
	upper      = `min: {k: {"$numberLong": "0"}}, max: {k: {"$maxKey": 1}}`
)

func version(major int) string { return fmt.Sprintf(generation, major) }

// receive has a shard receive a range of d.c.
func receive(to *member, number int64, uuid, key string, from *member, span string) {
	to.t.Helper()
	to.ask("admin", `{_shardsvrReceive: "d.c", uuid: `+uuid+`, key: `+key+`, unique: false, from: "`+from.host+`", `+
		`generation: {epoch: {"$oid": "0102030405060708090a0b0c"}, timestamp: {"$timestamp": {t: 9, i: 1}}}, `+span+`, `+fence(number, step.Trying, 1)+`}`)
}

// awaitReceived waits until what lay in the range is on the shard, and returns how many
// documents were received.
func awaitReceived(to *member, span string) int64 {
	to.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		r := to.ask("admin", `{_shardsvrReceived: "d.c", `+span+`}`)
		if f := r.Lookup("failed"); f.Type == bson.TypeString {
			to.t.Fatal(f.Str())
		}
		if r.Has("behind") {
			return r.Lookup("documents").Int64()
		}
		if time.Now().After(deadline) {
			to.t.Fatal(r)
		}
	}
}

// move takes the upper half of d.c from one shard to the other, as the config primary
// would.
func move(t testing.TB, number int64, uuid string, from, to *member, given, own int) {
	t.Helper()
	moveRange(t, number, uuid, `{k: "hashed"}`, from, to, upper, given, own)
}

// moveRange takes a range of d.c from one shard to the other, as the config primary would,
// and returns how many documents were received at first.
func moveRange(t testing.TB, number int64, uuid, key string, from, to *member, upper string, given, own int) int64 {
	t.Helper()
	receive(to, number, uuid, key, from, upper)
	received := awaitReceived(to, upper)
	if _, err := to.try("admin", `{_shardsvrOwn: "d.c", `+upper+`, version: `+version(own)+`, `+fence(number, step.Trying, 2)+`}`); !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
		t.Fatalf("what is not received is owned: %v", err)
	}
	at := from.ask("admin", `{_shardsvrBlock: "d.c", reads: false, `+upper+`, `+fence(number, step.Trying, 3)+`}`).Lookup("position")
	if at.Type != bson.TypeTimestamp {
		t.Fatal("no position")
	}
	until := new(bson.Builder).Value("until", at).Finish().String()
	to.ask("admin", `{_shardsvrReceived: "d.c", `+upper+`, `+strings.TrimSuffix(strings.TrimPrefix(jsonOf(until), "{ "), " }")+`, `+fence(number, step.Trying, 4)+`}`)
	from.ask("admin", `{_shardsvrBlock: "d.c", reads: true, `+upper+`, `+fence(number, step.Trying, 5)+`}`)
	for range 2 { // each request twice
		to.ask("admin", `{_shardsvrOwn: "d.c", `+upper+`, version: `+version(own)+`, `+fence(number, step.Committed, 1)+`}`)
		from.ask("admin", `{_shardsvrGiven: "d.c", `+upper+`, version: `+version(given)+`, `+fence(number, step.Committed, 2)+`}`)
	}
	// What is late does nothing.
	for _, late := range []string{
		`{_shardsvrBlock: "d.c", reads: false, ` + upper + `, ` + fence(number, step.Trying, 3) + `}`,
		`{_shardsvrAbort: "d.c", ` + upper + `, ` + fence(number-1, step.Undone, 1) + `}`,
	} {
		if _, err := from.try("admin", late); !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
			t.Fatalf("%s: %v", late, err)
		}
	}
	return received
}

// jsonOf writes the timestamps of a document's text as extended JSON.
func jsonOf(text string) string {
	text = strings.ReplaceAll(text, "Timestamp(", `{"$timestamp": {t: `)
	text = strings.Replace(text, ", ", ", i: ", 1)
	return strings.ReplaceAll(text, ")", "}}")
}

// ids are the _ids that a shard shows.
func (m *member) ids() map[int32]bool {
	all := map[int32]bool{}
	for v := range m.ask("d", `{find: "c", projection: {_id: 1}, batchSize: 100000}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		all[v.Doc().Lookup("_id").Int32()] = true
	}
	return all
}

// TestMove: a range goes to another shard and back while clients insert, update and remove,
// each by the version that it knows: no document is lost, doubled, or seen on both, whether
// it lies by the shard key, in slots or by _id. In slots other documents expire meanwhile, each
// of which is told once.
func TestMove(t *testing.T) {
	for _, layout := range []string{"by shard key", "in slots", "by id"} {
		t.Run(layout, func(t *testing.T) { testMove(t, `{k: "hashed"}`, layout != "by id", layout == "in slots") })
	}
	t.Run("by a ranged key", func(t *testing.T) { testMove(t, `{k: 1}`, true, false) })
	t.Run("by a ranged key, by id", func(t *testing.T) { testMove(t, `{k: 1}`, false, false) })
}

func testMove(t *testing.T, key string, byShardKey, inSlots bool) {
	// keyOf is the shard key's value of the n-th document, and inUpper whether that is in the
	// upper half.
	keyOf, inUpper := func(n int32) int32 { return n }, func(n int32) bool { return schema.HashOf(bson.Int32(n), nil) >= 0 }
	if !strings.Contains(key, "hashed") {
		keyOf = func(n int32) int32 { return n * (1 - 2*(n%2)) }
		inUpper = func(n int32) bool { return keyOf(n) >= 0 }
	}
	a, b := start(t, "s0"), start(t, "s1")
	for name, m := range map[string]*member{"s0": a, "s1": b} {
		m.ask("admin", `{_shardsvrIdentify: 1, clusterId: {"$oid": "0102030405060708090a0b0c"}, name: "`+name+`", configdb: "cfg/localhost:1"}`)
		if _, err := m.try("admin", `{_shardsvrIdentify: 1, clusterId: {"$oid": "ff02030405060708090a0b0c"}, name: "`+name+`", configdb: "cfg/localhost:1"}`); !mongoerr.Is(err, mongoerr.AlreadyInitialized) {
			t.Fatal(err)
		}
		if !m.ask("admin", `{shardingState: 1}`).Lookup("enabled").Bool() {
			t.Fatal("shardingState says that it is none")
		}
	}
	if inSlots {
		for _, m := range []*member{a, b} {
			m.ask("admin", `{setParameter: 1, ttlMonitorSleepSecs: 1}`)
		}
		a.ask("d", `{createIndexes: "c", indexes: [{key: {t: 1}, name: "t_1", expireAfterSeconds: 1}]}`)
	}
	if !byShardKey { // it has a document when it is sharded
		a.ask("d", `{createIndexes: "c", indexes: [{key: `+key+`, name: "k_index"}]}`)
		a.ask("d", `{insert: "c", documents: [{_id: 1000000, k: 3, n: 1}]}`)
	}
	made := a.ask("admin", `{_shardsvrShard: "d.c", key: `+key+`, unique: false, version: `+version(0)+`, `+fence(1, step.Trying, 1)+`}`)
	_, id := made.Lookup("uuid").Binary()
	uuid := fmt.Sprintf(`{"$uuid": "%x-%x-%x-%x-%x"}`, id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	a.ask("admin", `{_shardsvrVersion: "d.c", uuid: `+uuid+`, version: `+version(1)+`, `+fence(1, step.Committed, 1)+`}`)

	var mu sync.Mutex
	majors := map[*member]int{a: 1, b: 0}
	owner := a // of the upper half
	next, acknowledged, passing := int32(0), map[int32]bool{}, map[int32]int{}
	// write runs a statement about the n-th document, by the version of who owns it.
	write := func(n int32, statement string) bool {
		for {
			mu.Lock()
			to := a
			if inUpper(n) {
				to = owner
			}
			major := majors[to]
			mu.Unlock()
			reply, err := to.try("d", `{`+statement+`, shardVersion: `+version(major)+`}`)
			if mongoerr.Is(err, mongoerr.StaleConfig) {
				continue
			}
			if err != nil {
				t.Error(err)
				return false
			}
			if errs := reply.Lookup("writeErrors"); errs.IsMissing() {
				return true
			} else if !strings.Contains(errs.String(), "code: 13388") {
				t.Error(errs)
				return false
			}
		}
	}
	// insert adds a document, increments n of it, and removes every seventh one.
	insert := func() {
		mu.Lock()
		next++
		n := next
		mu.Unlock()
		passes, due := inSlots && n%3 == 0, time.Now()
		if !passes {
			due = due.Add(time.Hour)
		}
		if !write(n, fmt.Sprintf(`insert: "c", documents: [{_id: %d, k: %d, n: 0, t: {"$date": {"$numberLong": "%d"}}}]`, n, keyOf(n), due.UnixMilli())) {
			return
		}
		if passes {
			mu.Lock()
			passing[n] = 0
			mu.Unlock()
			return
		}
		if !write(n, fmt.Sprintf(`update: "c", updates: [{q: {k: %d}, u: {$inc: {n: 1}}}]`, keyOf(n))) {
			return
		}
		if n%7 == 0 {
			write(n, fmt.Sprintf(`delete: "c", deletes: [{q: {_id: %d, k: %d}, limit: 1}]`, n, keyOf(n)))
			return
		}
		mu.Lock()
		acknowledged[n] = true
		mu.Unlock()
	}
	if !byShardKey {
		a.ask("d", `{delete: "c", deletes: [{q: {_id: 1000000}, limit: 1}], shardVersion: `+version(1)+`}`)
	}
	for range 300 {
		insert()
	}
	stop, writers := make(chan struct{}), sync.WaitGroup{}
	for range 3 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					insert()
				}
			}
		})
	}
	for i := range 4 {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		if inSlots {
			time.Sleep(700 * time.Millisecond) // not in step with the monitor
		}
		given, own := 2*i+2, 2*i+3
		if from == b {
			given = 0 // it keeps nothing
		}
		moveRange(t, int64(10+i), uuid, key, from, to, upper, given, own)
		mu.Lock()
		majors[from], majors[to], owner = given, own, to
		mu.Unlock()
	}
	moveRange(t, 20, uuid, key, a, b, upper, 20, 21)
	mu.Lock()
	majors[a], majors[b], owner = 20, 21, b
	mu.Unlock()
	close(stop)
	writers.Wait()
	if inSlots {
		expireOnce(t, passing, a, b)
	}
	onA, onB := a.ids(), b.ids()
	for n := range acknowledged {
		upper := inUpper(n)
		if onB[n] != upper || onA[n] == upper {
			t.Errorf("%d: on the one %t, on the other %t", n, onA[n], onB[n])
		}
	}
	for _, m := range []*member{a, b} {
		if n := m.ask("d", `{count: "c", query: {n: {$ne: 1}}}`).Lookup("n").String(); n != "0" {
			t.Errorf("%s of the documents were not updated once", n)
		}
		if v := m.ask("d", `{validate: "c", full: true}`); !v.Lookup("valid").Bool() {
			t.Errorf("the collection is damaged: %s", v)
		}
	}
	if len(onA)+len(onB) != len(acknowledged) {
		t.Errorf("%d and %d documents, %d were acknowledged", len(onA), len(onB), len(acknowledged))
	}
	if n := a.ask("d", `{count: "c"}`).Lookup("n"); bson.ClampToInt64(n) != int64(len(onA)) {
		t.Errorf("count is %s, want %d", n, len(onA))
	}
}

// expireOnce waits until documents with some _ids have gone from all shards, and checks that
// the change streams of all together tell of each once.
func expireOnce(t *testing.T, passing map[int32]int, shards ...*member) {
	t.Helper()
	for _, m := range shards {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			n := 0
			for id := range m.ids() {
				if _, passes := passing[id]; passes {
					n++
				}
			}
			if n == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d documents do not expire", n)
			}
		}
		first := m.ask("local", `{find: "oplog.rs", limit: 1}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice()[0].Doc().Lookup("ts")
		at := jsonOf(new(bson.Builder).Value("startAtOperationTime", first).Finish().String())
		cursor := m.ask("d", `{aggregate: "c", pipeline: [{$changeStream: `+at+`}, {$match: {operationType: "delete"}}], cursor: {batchSize: 0}}`).Lookup("cursor").Doc()
		for empty := 0; empty < 3; {
			id := cursor.Lookup("id").String()
			cursor = m.ask("d", `{getMore: {"$numberLong": "`+id+`"}, collection: "c", maxTimeMS: 200}`).Lookup("cursor").Doc()
			events := cursor.Lookup("nextBatch").Doc().Slice()
			for _, v := range events {
				id := v.Doc().Lookup("documentKey").Doc().Lookup("_id").Int32()
				if _, passes := passing[id]; passes {
					passing[id]++
				}
			}
			if empty++; len(events) > 0 {
				empty = 0
			}
		}
	}
	for id, n := range passing {
		if n != 1 {
			t.Errorf("it is told %d times that %d has expired", n, id)
		}
	}
	if len(passing) < 100 {
		t.Errorf("%d documents expire, which says little", len(passing))
	}
}

// TestRetryAfterMove: a statement that the donor has executed is not executed again where
// its range is.
// (Invariant once, over shards.)
func TestRetryAfterMove(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	made := a.ask("admin", `{_shardsvrShard: "d.c", key: {k: "hashed"}, unique: false, version: `+version(0)+`, `+fence(1, step.Trying, 1)+`}`)
	_, id := made.Lookup("uuid").Binary()
	uuid := fmt.Sprintf(`{"$uuid": "%x-%x-%x-%x-%x"}`, id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	a.ask("admin", `{_shardsvrVersion: "d.c", version: `+version(1)+`, `+fence(1, step.Committed, 1)+`}`)
	a.ask("d", `{insert: "c", documents: [{_id: 1, k: 1, n: 0}], shardVersion: `+version(1)+`}`)
	count := func(m *member, major int) {
		t.Helper()
		m.ask("d", `{update: "c", updates: [{q: {k: 1}, u: {$inc: {n: 1}}}], lsid: {id: {"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}}, txnNumber: {"$numberLong": "5"}, shardVersion: `+version(major)+`}`)
	}
	count(a, 1)
	move(t, 10, uuid, a, b, 2, 3)
	count(b, 3)
	found := b.ask("d", `{find: "c", shardVersion: `+version(3)+`}`).Lookup("cursor").Doc().Lookup("firstBatch").String()
	if found != "[ { _id: 1, k: 1, n: 1 } ]" {
		t.Error(found)
	}
	if _, err := a.try("d", `{find: "c", shardVersion: `+version(1)+`}`); !mongoerr.Is(err, mongoerr.StaleConfig) {
		t.Error(err)
	}
	// Undone: nothing is left, and the range is where it was.
	b.ask("admin", `{_shardsvrBlock: "d.c", reads: true, `+upper+`, `+fence(11, step.Trying, 1)+`}`)
	b.ask("admin", `{_shardsvrAbort: "d.c", `+upper+`, `+fence(11, step.Undone, 1)+`}`)
	a.ask("admin", `{_shardsvrAbort: "d.c", `+upper+`, `+fence(11, step.Undone, 1)+`}`)
	count(b, 3)
}

// TestRetryAfterMovePrimary: a retryable write whose answer was lost is not executed again on the
// shard to which its database has moved.
func TestRetryAfterMovePrimary(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	a.ask("d", `{insert: "c", documents: [{_id: 1, n: 0}]}`)
	count := func(m *member) {
		t.Helper()
		m.ask("d", `{update: "c", updates: [{q: {_id: 1}, u: {$inc: {n: 1}}}], lsid: {id: {"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}}, txnNumber: {"$numberLong": "5"}}`)
	}
	count(a)
	for deadline := time.Now().Add(time.Minute); !b.ask("admin", `{_shardsvrCloneDatabase: "d", from: "`+a.host+`", `+fence(10, step.Trying, 1)+`}`).Lookup("done").Truthy(); {
		if time.Now().After(deadline) {
			t.Fatal("the database is not copied")
		}
	}
	count(b)
	if found := b.ask("d", `{find: "c"}`).Lookup("cursor").Doc().Lookup("firstBatch").String(); found != "[ { _id: 1, n: 1 } ]" {
		t.Error(found)
	}
}

// TestDropsOnce: a request to drop that is sent again, because its answer was lost, leaves what
// has been made under the name meanwhile.
func TestDropsOnce(t *testing.T) {
	a := start(t, "s0")
	for _, kind := range []struct{ create, named string }{{`{create: "c"}`, ""}, {`{create: "c", viewOn: "e", pipeline: []}`, `view: true`}} {
		a.ask("d", kind.create)
		if kind.named == "" {
			_, id := a.ask("d", `{listCollections: 1, filter: {name: "c"}}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Lookup("0").Doc().Lookup("info").Doc().Lookup("uuid").Binary()
			kind.named = fmt.Sprintf(`uuid: {"$uuid": "%x-%x-%x-%x-%x"}`, id[:4], id[4:6], id[6:8], id[8:10], id[10:])
		}
		request := `{_shardsvrDrop: "d.c", ` + kind.named + `, ` + fence(10, step.Committed, 1) + `}`
		a.ask("admin", request)
		a.ask("d", `{insert: "c", documents: [{_id: 1}]}`)
		a.ask("admin", request)
		if found := a.ids(); len(found) != 1 {
			t.Errorf("%s: %v", kind.create, found)
		}
		a.ask("d", `{drop: "c"}`)
	}
}

// TestDropDatabaseRefusesLateWrites: what a router that does not know of the drop writes is
// refused from the moment on at which the database goes, or goes with it.
func TestDropDatabaseRefusesLateWrites(t *testing.T) {
	a := start(t, "s0")
	const of = `{uuid: {"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}, timestamp: {"$timestamp": {t: 9, i: 1}}, lastMod: 1}`
	set := func(number int64) {
		a.ask("admin", `{_shardsvrSetDatabase: "d", version: `+of+`, primary: true, blocked: false, `+fence(number, step.Trying, 1)+`}`)
	}
	for n := range int64(10) {
		set(10 * (n + 1))
		var writers sync.WaitGroup
		gone := make(chan struct{})
		for w := range 4 {
			writers.Go(func() {
				for i := 0; ; i++ {
					_, err := a.try("d", fmt.Sprintf(`{insert: "c%d", documents: [{_id: %d}], shardVersion: {e: {"$oid": "000000000000000000000000"}, t: {"$timestamp": {t: 0, i: 0}}, v: {"$timestamp": {t: 0, i: 0}}}, databaseVersion: %s}`, w, i, of))
					select {
					case <-gone:
						return
					default:
					}
					if err != nil && !mongoerr.Is(err, mongoerr.MovePrimaryInProgress) && !mongoerr.Is(err, mongoerr.StaleDbVersion) && !mongoerr.Is(err, mongoerr.QueryPlanKilled) {
						t.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		a.ask("admin", `{_shardsvrDropDatabase: "d", `+fence(10*(n+1)+1, step.Committed, 1)+`}`)
		close(gone)
		writers.Wait()
		if left := a.ask("d", `{listCollections: 1}`).Lookup("cursor").Doc().Lookup("firstBatch").String(); left != "[]" {
			t.Fatal(left)
		}
	}
}

// TestMoveTakesTransactions: what a transaction writes on the donor while the range is copied
// comes along, though the log has it as one entry of another namespace.
func TestMoveTakesTransactions(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	made := a.ask("admin", `{_shardsvrShard: "d.c", key: {k: "hashed"}, unique: false, version: `+version(0)+`, `+fence(1, step.Trying, 1)+`}`)
	_, id := made.Lookup("uuid").Binary()
	uuid := fmt.Sprintf(`{"$uuid": "%x-%x-%x-%x-%x"}`, id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	a.ask("admin", `{_shardsvrVersion: "d.c", version: `+version(1)+`, `+fence(1, step.Committed, 1)+`}`)
	a.ask("d", `{insert: "c", documents: [{_id: 1, k: 1, n: 0}, {_id: 2, k: 1}], shardVersion: `+version(1)+`}`)
	receive(b, 10, uuid, `{k: "hashed"}`, a, upper)
	awaitReceived(b, upper)
	const in = `lsid: {id: {"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}}, txnNumber: {"$numberLong": "5"}, autocommit: false`
	a.ask("d", `{update: "c", updates: [{q: {_id: 1}, u: {$inc: {n: 1}}}], startTransaction: true, `+in+`, shardVersion: `+version(1)+`}`)
	a.ask("d", `{insert: "c", documents: [{_id: 3, k: 1}], `+in+`, shardVersion: `+version(1)+`}`)
	a.ask("d", `{delete: "c", deletes: [{q: {_id: 2}, limit: 1}], `+in+`, shardVersion: `+version(1)+`}`)
	a.ask("admin", `{commitTransaction: 1, `+in+`}`)
	move(t, 10, uuid, a, b, 2, 3)
	found := b.ask("d", `{find: "c", sort: {_id: 1}, shardVersion: `+version(3)+`}`).Lookup("cursor").Doc().Lookup("firstBatch").String()
	if found != "[ { _id: 1, k: 1, n: 1 }, { _id: 3, k: 1 } ]" {
		t.Error(found)
	}
}

// TestWorkEndsWithTerm: what ran in the background in an earlier term, and be it that it waits
// for somebody to hear of its error, is not what a primary goes on with: it begins anew from
// what is stored.
// (Invariant one-term.)
func TestWorkEndsWithTerm(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	uuid := a.sharded(`{k: "hashed"}`)
	a.insert(`{_id: 1, k: 1}`, `{_id: 2, k: 2}`, `{_id: 3, k: 3}`)
	receive(b, 10, uuid, `{k: "hashed"}`, a, whole)
	awaitReceived(b, whole)
	await := func(what string, is func(answer bson.Doc) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			answer, err := b.try("admin", `{_shardsvrReceived: "d.c", `+whole+`, behind: {"$numberLong": "1200"}}`)
			if err == nil && is(answer) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("in vain: %s: %s %v", what, answer, err)
			}
		}
	}
	failed := func(answer bson.Doc) bool { return answer.Lookup("failed").Type == bson.TypeString }
	a.ask("admin", `{_shardsvrUnshard: "d.c", uuid: `+uuid+`, keep: true, `+fence(11, step.Undone, 1)+`}`)
	a.ask("d", `{insert: "c", documents: [{_id: 4, k: 4}]}`) // which the recipient asks for
	await("the range cannot be received", failed)
	a.ask("admin", `{_shardsvrShard: "d.c", key: {k: "hashed"}, unique: false, version: `+version(1)+`, `+fence(12, step.Trying, 1)+`}`)
	b.ask("admin", `{replSetStepDown: 1, force: true, secondaryCatchUpPeriodSecs: 0}`)
	await("all is received by the next primary", func(answer bson.Doc) bool {
		return !failed(answer) && answer.Has("behind") && answer.Lookup("documents").Int64() == 4
	})
}

// TestReceivedEndsWithTerm: who waits on a member for what it receives is told when that is no
// primary any more, and asks the next one; else the move would block the writes of its donor
// for ever.
func TestReceivedEndsWithTerm(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	uuid := a.sharded(`{k: "hashed"}`)
	receive(b, 10, uuid, `{k: "hashed"}`, a, whole)
	awaitReceived(b, whole)
	ended := make(chan error, 1)
	go func() {
		_, err := b.try("admin", `{_shardsvrReceived: "d.c", `+whole+`, until: {"$timestamp": {t: 4000000000, i: 1}}}`)
		ended <- err
	}()
	for waits := false; !waits; {
		waits = strings.Contains(b.ask("admin", `{currentOp: 1}`).String(), "4000000000")
	}
	b.ask("admin", `{replSetStepDown: 1, force: true, secondaryCatchUpPeriodSecs: 0}`)
	select {
	case err := <-ended:
		if !mongoerr.Is(err, mongoerr.InterruptedDueToReplStateChange) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits on a member that was primary")
	}
}

// TestUndoneMoveIsRemoved: what was received of a move that is undone goes, whatever ran in the
// background in between.
func TestUndoneMoveIsRemoved(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	uuid := a.sharded(`{k: "hashed"}`)
	a.insert(`{_id: 1, k: 1}`, `{_id: 2, k: 2}`, `{_id: 3, k: 3}`)
	for n := int64(10); n < 30; n++ {
		receive(b, n, uuid, `{k: "hashed"}`, a, whole)
		awaitReceived(b, whole)
		b.ask("admin", `{_shardsvrAbort: "d.c", `+whole+`, `+fence(n, step.Undone, 1)+`}`)
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			left, _ := bson.ExactInt64(b.ask("d", `{collStats: "c"}`).Lookup("count"))
			if left == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d documents are left of move %d, which was undone", left, n)
			}
		}
	}
}

// TestMoveTakesMaxKey: a document whose shard key is MaxKey is in the last range, as all others
// are in theirs: it moves, changes on the way, and is removed where it was.
func TestMoveTakesMaxKey(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	uuid := a.sharded(`{k: 1}`)
	a.insert(`{_id: 1, k: 3}`, `{_id: 2, k: {"$maxKey": 1}}`)
	receive(b, 10, uuid, `{k: 1}`, a, whole)
	if n := awaitReceived(b, whole); n != 2 {
		t.Errorf("%d documents are received, want 2", n)
	}
	a.insert(`{_id: 3, k: {"$maxKey": 1}}`)
	a.ask("d", `{update: "c", updates: [{q: {_id: 2}, u: {$set: {n: 1}}, multi: true}], shardVersion: `+version(1)+`}`)
	moveRange(t, 10, uuid, `{k: 1}`, a, b, whole, 0, 3)
	found := b.ask("d", `{find: "c", filter: {k: {"$maxKey": 1}}, sort: {_id: 1}, shardVersion: `+version(3)+`}`).Lookup("cursor").Doc().Lookup("firstBatch").String()
	if found != "[ { _id: 2, k: MaxKey, n: 1 }, { _id: 3, k: MaxKey } ]" {
		t.Error(found)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		left, _ := bson.ExactInt64(a.ask("d", `{collStats: "c"}`).Lookup("count"))
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d documents are left where they were", left)
		}
	}
	// No chunk begins at MaxKey.
	if r, err := b.try("admin", `{_shardsvrSplitPoints: "d.c", `+whole+`, bytes: {"$numberLong": "0"}, limit: 1}`); !mongoerr.Is(err, mongoerr.CannotSplit) {
		t.Errorf("it is split: %s %v", r, err)
	}
}

// hungReceive has b receive d.c from a new shard that does not answer for some seconds. When it
// returns, b waits for it; answered has the error of the answer to the request.
func hungReceive(t *testing.T, b *member) (answered chan error) {
	t.Helper()
	a := start(t, "s0", "--setParameter", "enableTestCommands=1")
	uuid := a.sharded(`{k: "hashed"}`)
	a.ask("admin", `{configureFailPoint: "failCommand", mode: {times: 1}, data: {failCommands: ["_shardsvrClone"], blockConnection: true, blockTimeMS: 3000}}`)
	answered = make(chan error, 1)
	go func() {
		_, err := b.try("admin", `{_shardsvrReceive: "d.c", uuid: `+uuid+`, key: {k: "hashed"}, unique: false, from: "`+a.host+`", `+
			`generation: {epoch: {"$oid": "0102030405060708090a0b0c"}, timestamp: {"$timestamp": {t: 9, i: 1}}}, `+whole+`, `+fence(10, step.Trying, 1)+`}`)
		answered <- err
	}()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(a.ask("admin", `{currentOp: 1}`).String(), "_shardsvrClone"); {
		if time.Now().After(deadline) {
			t.Fatal("the donor is not asked")
		}
	}
	return answered
}

// TestRequestEndsWithTerm: a request that waits for another shard while its member ceases to be
// the primary does nothing, and be it that the member is the primary again when the answer comes:
// a later primary may have executed later requests.
// (Invariant one-term.)
func TestRequestEndsWithTerm(t *testing.T) {
	b := start(t, "s1")
	answered := hungReceive(t, b)
	b.ask("admin", `{replSetStepDown: 1, force: true, secondaryCatchUpPeriodSecs: 0}`)
	select {
	case err := <-answered:
		if !mongoerr.Is(err, mongoerr.InterruptedDueToReplStateChange) {
			t.Errorf("the answer is %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("no answer")
	}
	b.ask("d", `{insert: "other", documents: [{_id: 1}]}`) // in the next term
	if r, err := b.try("admin", `{_shardsvrReceived: "d.c", `+whole+`}`); !mongoerr.Is(err, mongoerr.IllegalOperation) {
		t.Errorf("something is received: %s %v", r, err)
	}
}

// TestFenceIsHeld: a request does nothing to what the shard owns once the fence of a later one
// is stored, whenever that came.
// (Invariant fence.)
func TestFenceIsHeld(t *testing.T) {
	b := start(t, "s1")
	answered := hungReceive(t, b)
	b.ask("config", `{update: "cache.operations", updates: [{q: {_id: "d.c"}, u: {$set: {number: {"$numberLong": "11"}}}}]}`)
	if err := <-answered; !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
		t.Errorf("the answer is %v", err)
	}
	if r, err := b.try("admin", `{_shardsvrReceived: "d.c", `+whole+`}`); !mongoerr.Is(err, mongoerr.IllegalOperation) {
		t.Errorf("something is received: %s %v", r, err)
	}
}
