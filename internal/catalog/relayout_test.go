package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// In tests two adjacent records are a run.
func init() { relayRun = 2 }

// relayTwin is a collection that is laid anew, there and back, and a dumb account of
// it: documents by _id. What may have gone by an instant, it finds gone.
type relayTwin struct {
	kind windowKind
	fs   *storage.MemFS
	c    *Catalog
	coll *Collection
	docs map[int]bson.Doc
	from RecordKey // of the next part
}

var relayNS = schema.Namespace{DB: "d", Coll: "c"}

// relayIDs is how many _ids there are.
const relayIDs = 24

func (m *relayTwin) open(t failer) {
	_, m.c = openProved(t, storage.Options{Dir: "db", FS: m.fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10}, Options{})
	m.look(t)
	m.from = nil
}

// look takes the newest descriptor.
func (m *relayTwin) look(t failer) {
	if m.coll = m.c.Lookup(relayNS); m.coll == nil {
		t.Fatal("the collection is gone")
	}
}

// id makes _ids of several types, so that record keys are on both sides of those of
// windows.
func (m *relayTwin) id(n int) bson.Value {
	switch n % 6 {
	case 0:
		return bson.String(fmt.Sprint("a", n))
	case 1:
		return bson.Double(float64(n) + 0.5)
	case 2:
		return bson.Code(fmt.Sprint("c", n)) // behind windows by date
	case 3:
		return bson.Document(new(bson.Builder).Int64("n", int64(n)).Finish())
	}
	return bson.Int64(int64(n))
}

func (m *relayTwin) draw(t *rapid.T, n int) bson.Doc {
	var b bson.Builder
	b.Value("_id", m.id(n)).Int32("n", int32(n))
	for name, v := range drawExpiring(t, n).All() {
		if name != "_id" && name != "u" {
			b.Value(name, v)
		}
	}
	return b.Int32("u", int32(rapid.IntRange(0, 40).Draw(t, "unique"))).Finish()
}

func (m *relayTwin) taken(n int, doc bson.Doc) bool {
	for other, d := range m.docs {
		if other != n && bson.Equal(d.Lookup("u"), doc.Lookup("u")) {
			return true
		}
	}
	return false
}

// write writes a document, found by its _id or by a record key from before.
func (m *relayTwin) write(t *rapid.T) {
	ctx := t.Context()
	n := rapid.IntRange(0, relayIDs-1).Draw(t, "n")
	doc := m.draw(t, n)
	have := m.docs[n]
	u := m.c.Begin()
	defer u.Abort()
	u.SetTime(int64(rapid.IntRange(1, 12).Draw(t, "second")))
	doc = u.Stamp(m.coll, doc)
	switch op := rapid.SampledFrom([]string{"insert", "insert", "update", "delete"}).Draw(t, "op"); op {
	case "insert":
		err := u.Insert(ctx, m.coll, doc)
		if (err != nil) != (have != nil || m.taken(n, doc)) || err != nil && !mongoerr.Is(err, mongoerr.DuplicateKey) {
			t.Fatalf("insert of %s: %v", doc, err)
		}
		if err != nil {
			return
		}
		m.docs[n] = doc
	default:
		record, old, err := u.LockID(ctx, m.coll, m.id(n))
		if err != nil || !bytes.Equal(old, have) {
			t.Fatalf("LockID has %s, the twin %s: %v", old, have, err)
		}
		if old == nil {
			return
		}
		if op == "delete" {
			err = u.Delete(ctx, m.coll, record, old)
			delete(m.docs, n)
		} else {
			if err = u.Update(ctx, m.coll, record, old, doc); m.taken(n, doc) {
				if !mongoerr.Is(err, mongoerr.DuplicateKey) {
					t.Fatalf("update to %s: %v", doc, err)
				}
				return
			}
			m.docs[n] = doc
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Commit(ctx, storage.Buffered); err != nil {
		t.Fatal(err)
	}
}

// stale updates a document by a record key that a scan has found before it moved.
func (m *relayTwin) stale(t *rapid.T, was map[int]RecordKey) {
	if len(was) == 0 {
		return
	}
	n := rapid.SampledFrom(slices.Sorted(maps.Keys(was))).Draw(t, "stale")
	err := m.c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
		u.SetTime(13)
		old, err := u.LockRecord(t.Context(), m.coll, was[n])
		if err != nil || !bytes.Equal(old, m.docs[n]) {
			t.Fatalf("LockRecord has %s, the twin %s: %v", old, m.docs[n], err)
		}
		if old == nil {
			return nil
		}
		doc := u.Stamp(m.coll, withField(old, "stale", bson.Bool(true)))
		m.docs[n] = doc
		return u.Update(t.Context(), m.coll, was[n], old, doc)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func withField(d bson.Doc, name string, v bson.Value) bson.Doc {
	var b bson.Builder
	for n, v := range d.All() {
		if n != name {
			b.Value(n, v)
		}
	}
	return b.Value(name, v).Finish()
}

func (m *relayTwin) places(t *rapid.T) map[int]RecordKey {
	at := map[int]RecordKey{}
	keys, docs := records(t, m.c.engine, m.coll)
	for i, d := range docs {
		at[int(d.Lookup("n").Int32())] = bytes.Clone(keys[i])
	}
	return at
}

// gone takes note of what has gone, all of which was due at an instant by the rule.
func (m *relayTwin) gone(t *rapid.T, rule *Rule, now, want int64) {
	at := m.places(t)
	for n, d := range m.docs {
		if _, there := at[n]; there {
			continue
		}
		if want--; rule == nil || rule.Due(d) > now {
			t.Fatalf("%s is gone at %d, and is not due", d, now)
		}
		delete(m.docs, n)
	}
	if want != 0 {
		t.Fatalf("%d more are said to be gone", want)
	}
}

var errStop = errors.New("stop")

// part does a part, in which others write between its steps, and which may be stopped.
func (m *relayTwin) part(t *rapid.T) {
	if !m.coll.Relaying() {
		return
	}
	was := m.places(t)
	o := Relay{From: m.from, Bytes: rapid.SampledFrom([]int{1, 200, 1 << 20}).Draw(t, "bytes"), Now: int64(rapid.IntRange(58000, 72000).Draw(t, "now"))}
	if rapid.IntRange(0, 3).Draw(t, "may act") > 0 {
		o.Rule = m.coll.RelayServes()
	}
	var gone int64
	o.Did = func(s RelayStep, _ time.Duration) error {
		m.gone(t, o.Rule, o.Now, s.Gone.Docs)
		gone += s.Gone.Docs
		for range rapid.IntRange(0, 2).Draw(t, "writes meanwhile") {
			m.write(t)
		}
		if rapid.IntRange(0, 4).Draw(t, "stop") == 0 {
			return errStop
		}
		return nil
	}
	next, end, err := m.c.RelayPart(t.Context(), m.coll, o)
	switch {
	case errors.Is(err, errStop):
		return
	case err != nil:
		t.Fatal(err)
	case end:
		m.from = nil
	default:
		m.from = next
	}
	m.stale(t, was)
}

func (m *relayTwin) end(t *rapid.T) {
	if !m.coll.Relaying() {
		return
	}
	left, err := m.c.RelayLeft(m.coll)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for _, k := range m.places(t) {
		if m.coll.leaves(k) {
			n++
		}
	}
	if n != left {
		t.Fatalf("%d are said to be left, and %d are", left, n)
	}
	done, err := m.c.EndRelay(t.Context(), m.coll, func(time.Duration) error { return nil })
	if m.look(t); err != nil || done != (left == 0) || done == m.coll.Relaying() {
		t.Fatalf("%d are left, done %t, goes on %t, %v", left, done, m.coll.Relaying(), err)
	}
}

func (m *relayTwin) begin(t *rapid.T) {
	var err error
	switch rule := m.coll.RelayRule(); {
	case m.coll.Relaying():
		return
	case rule != nil:
		err = m.c.BeginRelay(t.Context(), m.coll, rule, nil)
	case m.coll.WindowsIdle():
		if _, err := m.c.Sweep(t.Context(), m.coll, func(time.Duration) error { return nil }); err != nil {
			t.Fatal(err)
		}
		err = m.c.BeginRelay(t.Context(), m.coll, nil, nil)
	default:
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	m.from = nil
	m.look(t)
	if !m.coll.Relaying() {
		t.Fatal("nothing has begun")
	}
}

// drop removes what is due in windows, also while documents are on their way.
func (m *relayTwin) drop(t *rapid.T) {
	for _, r := range m.coll.Rules() {
		if !m.coll.WindowedBy(r) {
			continue
		}
		now := int64(rapid.IntRange(58000, 72000).Draw(t, "now"))
		d, err := m.c.DropWindows(t.Context(), m.coll, Drop{Rule: r, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		m.gone(t, r, now, d.Docs)
	}
}

func (m *relayTwin) check(t *rapid.T) {
	keys, docs := records(t, m.c.engine, m.coll)
	if len(docs) != len(m.docs) || m.coll.Count() != int64(len(docs)) {
		t.Fatalf("%d documents, count %d, the twin has %d", len(docs), m.coll.Count(), len(m.docs))
	}
	for i, d := range docs {
		if want := m.docs[int(d.Lookup("n").Int32())]; !bytes.Equal(d, want) {
			t.Fatalf("%s at %x, the twin has %s", d, keys[i], want)
		}
	}
	for n := range relayIDs {
		record, doc, closer, err := m.coll.FindID(nil, m.c.engine, m.id(n))
		if err != nil || !bytes.Equal(doc, m.docs[n]) {
			t.Fatalf("FindID of %d: %x %s, %v", n, record, doc, err)
		}
		if closer != nil {
			closer.Close()
		}
	}
	m.checkID(t)
	m.checkRanges(t)
	mustValidate(t, m.c, m.coll)
}

// chunk removes what is in a range of the shard key, where the collection lies by slots.
func (m *relayTwin) chunk(t *rapid.T) {
	if m.coll.Sharding() == nil {
		return
	}
	key := m.coll.Sharding().Key
	_, docs := records(t, m.c.engine, m.coll)
	r := drawRange(t, key, docs)
	_, slots := m.coll.Chunk(r)
	all, err := removeHidden(t, m.c, &m.coll, r)
	if err != nil || all != slots {
		t.Fatal(all, err)
	}
	maps.DeleteFunc(m.docs, func(_ int, doc bson.Doc) bool { return all && inRange(key, r, doc) })
}

// checkID: the index on _id has all documents, in order, whatever half they are in.
func (m *relayTwin) checkID(t *rapid.T) {
	s := m.c.engine.NewSnapshot()
	defer s.Close()
	it, err := m.coll.EntryIter(s, m.coll.indexes[0], nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	gone, err := m.coll.Gone(s)
	if err != nil {
		t.Fatal(err)
	}
	n, last := 0, []byte(nil)
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		key, record, doc := it.Key(), RecordKey(it.Key()), bson.Doc(v)
		if it.Joined() {
			key, record, _, doc = m.coll.splitID(nil, it, v)
		} else if ix := m.coll.indexes[0]; !ix.Records {
			_, record, _ = ix.Split(nil, it.Key(), v)
			doc = nil
		}
		if gone.Dead(record) {
			continue
		}
		if bytes.Compare(key, last) <= 0 && last != nil {
			t.Fatalf("%x comes behind %x", key, last)
		}
		last = bytes.Clone(key)
		stored, closer, err := s.Get(m.coll.Ident, record)
		if err != nil || doc != nil && !bytes.Equal(stored, doc) {
			t.Fatalf("the entry %x leads to %s, %v", key, bson.Doc(stored), err)
		}
		closer.Close()
		n++
	}
	if n != len(m.docs) {
		t.Fatalf("the index on _id has %d entries, of %d documents", n, len(m.docs))
	}
}

// checkRanges: a scan reads each record once.
func (m *relayTwin) checkRanges(t *rapid.T) {
	for _, backward := range []bool{false, true} {
		n := 0
		for _, r := range m.coll.Ranges(backward) {
			it, err := m.c.engine.NewIter(m.coll.Ident, r.From, r.To)
			if err != nil {
				t.Fatal(err)
			}
			for ok := it.First(); ok; ok = it.Next() {
				n++
			}
			it.Close()
		}
		if n != len(m.docs) {
			t.Fatalf("a scan has %d records, of %d documents", n, len(m.docs))
		}
	}
}

func (m *relayTwin) index(t *rapid.T, spec string) {
	if _, _, err := m.c.CreateIndexes(t.Context(), relayNS, []bson.Doc{parse(t, spec)}); err != nil {
		t.Fatal(err)
	}
	m.look(t)
}

// dropTTL takes the rule away, or makes it again.
func (m *relayTwin) dropTTL(t *rapid.T) {
	if m.coll.Index("at") == nil {
		m.index(t, m.kind.spec)
		return
	}
	_, err := m.c.DropIndexes(t.Context(), relayNS, func(c *Collection) ([]*Index, error) { return []*Index{c.Index("at")}, nil })
	if err != nil {
		t.Fatal(err)
	}
	m.look(t)
}

// crash goes on with what is on the disk of a machine that stopped at any moment.
func (m *relayTwin) crash(t *rapid.T) {
	if err := m.c.engine.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	fs := m.fs.Crash(rapid.IntRange(0, 100).Draw(t, "kept"), rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed"))))
	m.c.Close()
	m.c.engine.Close()
	m.fs = fs
	m.open(t)
}

// TestRelayTwin compares a collection that is laid anew with its twin, over writes
// before, between and within parts, drops, sweeps, builds, the end of its rule,
// restarts and crashes.
func TestRelayTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &relayTwin{kind: rapid.SampledFrom(windowKinds).Draw(t, "kind"), fs: storage.NewMemFS(), docs: map[int]bson.Doc{}}
		_, m.c = openProved(t, storage.Options{Dir: "db", FS: m.fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10}, Options{})
		defer func() { m.c.Close(); m.c.engine.Close() }()
		if _, err := m.c.Create(t.Context(), relayNS, nil); err != nil {
			t.Fatal(err)
		}
		m.look(t)
		m.index(t, `{"v": 2, "key": {"u": 1}, "name": "u", "unique": true}`)
		for range 20 {
			m.write(t)
		}
		if m.coll.Count() == 0 {
			return
		}
		if key := rapid.SampledFrom(slotKeys).Draw(t, "shard key"); key != "" {
			shardBy(t, m.c, relayNS, key)
		}
		m.index(t, m.kind.spec)
		if m.coll.Windowed() {
			t.Fatal("a filled collection has windows at once")
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": m.write, "write2": m.write, "part": m.part, "part2": m.part, "begin": m.begin, "end": m.end, "drop": m.drop, "chunk": m.chunk, "ttl": m.dropTTL, "crash": m.crash,
			"sweep": func(t *rapid.T) {
				if _, err := m.c.Sweep(t.Context(), m.coll, func(time.Duration) error { return nil }); err != nil {
					t.Fatal(err)
				}
			},
			"build": func(t *rapid.T) {
				if m.coll.Index("pad") == nil {
					m.index(t, `{"v": 2, "key": {"pad": -1}, "name": "pad"}`)
				}
			},
			"restart": func(t *rapid.T) {
				endProcess(t, m.c)
				m.open(t)
			},
			"": m.check,
		})
	})
}

// TestRelaidAndEmptied: a collection that was laid by windows and back, and then emptied, gets
// windows again by its next rule. Its documents are found by _id, and no two have the same.
func TestRelaidAndEmptied(t *testing.T) {
	c, coll := openWindowed(t)
	insertDated(t, c, coll, 1, 3, 1<<40)
	drop := func() {
		t.Helper()
		if _, err := c.DropIndexes(t.Context(), coll.Namespace, func(c *Collection) ([]*Index, error) { return []*Index{c.Index("at")}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	drop()
	relayWhole(t, c, coll, nil)
	for id := range int32(2) {
		u := c.Begin()
		defer u.Abort()
		record, old, err := u.LockID(t.Context(), coll.Latest(), bson.Int32(id+1))
		if err != nil || old == nil {
			t.Fatal(old, err)
		}
		if err := u.Delete(t.Context(), coll.Latest(), record, old); err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(t.Context(), storage.Buffered); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.CreateIndexes(t.Context(), coll.Namespace, specs(t, coll.Namespace, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`)); err != nil {
		t.Fatal(err)
	}
	coll = coll.Latest()
	if !coll.Windowed() {
		t.Fatal("it has no windows")
	}
	insertDated(t, c, coll, 1, 2, 1<<40)
	u := c.Begin()
	defer u.Abort()
	if _, doc, err := u.LockID(t.Context(), coll, bson.Int32(1)); err != nil || doc == nil {
		t.Errorf("by _id there is %v, %v", doc, err)
	}
	err := u.Insert(t.Context(), coll, new(bson.Builder).Int32("_id", 1).Date("at", 1<<41).Finish())
	if !mongoerr.Is(err, mongoerr.DuplicateKey) {
		t.Errorf("a second document with one _id: %v", err)
	}
}

// TestHalves: each record key is in one half, and those of windows of any kind and of
// _ids of any type are told apart. Those by a shard key, which has no halves, are in
// none.
func TestHalves(t *testing.T) {
	in := func(h layout.Half, k RecordKey) (n int) {
		for _, r := range h {
			if bytes.Compare(k, r.From) >= 0 && (r.To == nil || bytes.Compare(k, r.To) < 0) {
				n++
			}
		}
		return n
	}
	rapid.Check(t, func(t *rapid.T) {
		k := RecordKey(rapid.SliceOfN(rapid.Byte(), 1, 12).Draw(t, "key"))
		halves := 1
		if k[0] == layout.First {
			halves = 0
		}
		if byID, windows := in(layout.HalfByID, k), in(layout.HalfWindows, k); byID+windows != halves || (byID == 1) != k.OfID() {
			t.Fatalf("%x is %d times among those by _id, and %d among windows", k, byID, windows)
		}
	})
}

// BenchmarkRelay lays a filled collection of documents of 300 bytes with two further
// indexes by windows, of which none is due, and tells how many a second that are. The
// way back is not measured.
func BenchmarkRelay(b *testing.B) {
	const docs = 300_000
	ttl := func(c *Catalog) {
		if _, _, err := c.CreateIndexes(b.Context(), testNS, specs(b, testNS, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`)); err != nil {
			b.Fatal(err)
		}
	}
	c, coll := benchOpen(b, 0, `{"key": {"a": 1}, "name": "a"}`)
	relayFill(b, c, coll, docs)
	ttl(c)
	var used time.Duration
	b.ResetTimer()
	for range b.N {
		begun := cpuTime(b)
		relayWhole(b, c, coll, coll.Latest().RelayRule())
		b.StopTimer()
		used += cpuTime(b) - begun
		if _, err := c.DropIndexes(b.Context(), testNS, func(c *Collection) ([]*Index, error) { return []*Index{c.Index("at")}, nil }); err != nil {
			b.Fatal(err)
		}
		relayWhole(b, c, coll, nil)
		ttl(c)
		b.StartTimer()
	}
	b.ReportMetric(docs*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
	b.ReportMetric(float64(used.Nanoseconds())/docs/float64(b.N), "cpu-ns/doc")
}

// relayFill inserts documents of 300 bytes that are due over a day, in no order.
func relayFill(b *testing.B, c *Catalog, coll *Collection, docs int) {
	b.Helper()
	const day = 24 * 3_600_000
	at, pad, now := rand.New(rand.NewPCG(1, 2)), make([]byte, 220), time.Now().UnixMilli()
	for n := 0; n < docs; {
		u := c.Begin()
		for range 1000 {
			for i := range pad {
				pad[i] = ' ' + byte(at.Uint32()%64)
			}
			doc := new(bson.Builder).ObjectID("_id", objectID(n)).Int64("a", at.Int64()).
				Date("at", now+day+at.Int64N(day)).String("pad", string(pad)).Finish()
			if err := u.Insert(b.Context(), coll, doc); err != nil {
				b.Fatal(err)
			}
			n++
		}
		if err := u.Commit(b.Context(), storage.Buffered); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.engine.Flush(); err != nil {
		b.Fatal(err)
	}
}

// cpuTime is the processor time that the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// relayWhole lays a collection anew from the beginning to the end.
func relayWhole(t failer, c *Catalog, coll *Collection, by *Rule) {
	t.Helper()
	if err := c.BeginRelay(context.Background(), coll.Latest(), by, nil); err != nil {
		t.Fatal(err)
	}
	relayOn(t, c, coll, 64<<20)
}
