package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// windowWidthMS is the span of a window where documents bring their own dates.
const windowWidthMS = 10_000

// windowTwin is a collection with windows of expiry, and a dumb account of it:
// documents by _id, each with the window that it should be in.
type windowTwin struct {
	kind windowKind
	key  string // the shard key by which it lies in slots; "" for windows alone
	fs   *storage.MemFS
	c    *Catalog
	coll *Collection
	docs map[int]twinDoc
	low  LowWater
}

// windowKind is the rule of a windowTwin's collection; instants are those of
// its drops plus 60 seconds.
type windowKind struct{ name, spec string }

var windowKinds = []windowKind{
	{"date", `{"v": 2, "key": {"at": 1}, "name": "at", "expireAfterSeconds": 60}`},
	{"partial", `{"v": 2, "key": {"at": 1}, "name": "at", "expireAfterSeconds": 60, "partialFilterExpression": {"u": {"$lt": 8}}}`},
	{"last write", `{"v": 2, "key": {"_ts": 1}, "name": "at", "expireAfterSeconds": 60, "since": 0, "storageEngine": {"mayfly": {"expiry": {"by": "lastWrite"}}}}`},
	{"last write without a default", `{"v": 2, "key": {"_ts": 1}, "name": "at", "expireAfterSeconds": -1, "since": 2, "storageEngine": {"mayfly": {"expiry": {"by": "lastWrite"}}}}`},
}

type twinDoc struct {
	doc    bson.Doc
	window uint64
}

func (m *windowTwin) open(t failer) {
	_, m.c = openProved(t, storage.Options{Dir: "db", FS: m.fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10}, Options{})
	m.coll = m.c.Lookup(schema.Namespace{DB: "d", Coll: "c"})
}

// drawExpiring makes a document with a date, or dates, or none.
func drawExpiring(t *rapid.T, id int) bson.Doc {
	var b bson.Builder
	b.Int32("_id", int32(id))
	date := func() int64 { return int64(rapid.IntRange(-3000, 12000).Draw(t, "date")) }
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		b.String("at", "soon")
	case 1:
	case 2:
		b.Value("at", bson.Array(bson.Date(date()), bson.Int32(1), bson.Date(date())))
	case 3:
		b.Value("at", bson.Array(bson.Array(bson.Date(date()))))
	default:
		b.Date("at", date())
	}
	switch rapid.IntRange(0, 3).Draw(t, "ttl") {
	case 0:
		b.Int32("ttl", -1)
	case 1:
		b.Int32("ttl", int32(rapid.IntRange(1, 70).Draw(t, "own")))
	}
	return b.Int32("u", int32(rapid.IntRange(0, 15).Draw(t, "u"))).String("pad", fmt.Sprint(rapid.IntRange(0, 1000).Draw(t, "pad"))).Finish()
}

func (m *windowTwin) taken(id int, doc bson.Doc) bool {
	for other, d := range m.docs {
		if other != id && bson.Equal(d.doc.Lookup("u"), doc.Lookup("u")) {
			return true
		}
	}
	return false
}

// write does one write of one document.
func (m *windowTwin) write(t *rapid.T) {
	ctx := t.Context()
	id := rapid.IntRange(0, 9).Draw(t, "id")
	doc := drawExpiring(t, id)
	have, there := m.docs[id]
	u := m.c.Begin()
	defer u.Abort()
	u.SetTime(int64(rapid.IntRange(1, 12).Draw(t, "second")))
	doc = u.Stamp(m.coll, doc)
	switch op := rapid.SampledFrom([]string{"insert", "update", "delete"}).Draw(t, "op"); {
	case op == "insert":
		err := u.Insert(ctx, m.coll, doc)
		if (err != nil) != (there || m.taken(id, doc)) || err != nil && !mongoerr.Is(err, mongoerr.DuplicateKey) {
			t.Fatalf("insert of %s: %v", doc, err)
		}
		if err != nil {
			return
		}
		m.docs[id] = twinDoc{doc, m.low.Lift(m.coll.sections.Of(doc))}
	default:
		record, old, err := u.LockID(ctx, m.coll, bson.Int32(int32(id)))
		if err != nil || !bytes.Equal(old, have.doc) {
			t.Fatalf("LockID has %s, the twin %s: %v", old, have.doc, err)
		}
		if old == nil {
			return
		}
		if op == "delete" {
			err = u.Delete(ctx, m.coll, record, old)
			delete(m.docs, id)
		} else {
			err = u.Update(ctx, m.coll, record, old, doc)
			if m.taken(id, doc) {
				if !mongoerr.Is(err, mongoerr.DuplicateKey) {
					t.Fatalf("update to %s: %v", doc, err)
				}
				return
			}
			window := have.window
			if !m.coll.layout.Stays(old, doc) {
				window = m.low.Lift(m.coll.sections.Of(doc))
			}
			m.docs[id] = twinDoc{doc, window}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Commit(ctx, storage.Buffered); err != nil {
		t.Fatal(err)
	}
}

// slotKeys are the shard keys by which collections of twins lie in slots; "" for none.
var slotKeys = []string{"", "", `{_id: "hashed"}`, `{u: "hashed"}`, `{u: "hashed", pad: 1}`}

// drawRange draws a range of a shard key, which mostly ends at documents.
func drawRange(t *rapid.T, key *schema.ShardKey, docs []bson.Doc) schema.ShardRange {
	r := key.Whole()
	at := []int64{rapid.Int64().Draw(t, "from"), rapid.Int64().Draw(t, "to")}
	for i := range at {
		n := rapid.IntRange(0, 12).Draw(t, "at")
		if n >= len(docs) {
			continue
		}
		if at[i] = schema.HashOf(key.Parts[0].Value(docs[n]), nil); rapid.Bool().Draw(t, "behind") && at[i] < math.MaxInt64 {
			at[i]++
		}
	}
	slices.Sort(at)
	if rapid.Bool().Draw(t, "lower") {
		r.Min = boundAt(key, at[0])
	}
	if rapid.Bool().Draw(t, "upper") {
		r.Max = boundAt(key, at[1])
	}
	return r
}

// inRange reports whether a document is in a range of a shard key.
func inRange(key *schema.ShardKey, r schema.ShardRange, doc bson.Doc) bool {
	at, err := key.Append(nil, doc)
	return err == nil && r.Holds(at)
}

// chunk walks the records of a range of the shard key, or removes them.
func (m *windowTwin) chunk(t *rapid.T) {
	if m.key == "" {
		return
	}
	key := m.coll.Sharding().Key
	_, docs := records(t, m.c.engine, m.coll)
	r := drawRange(t, key, docs)
	k, ok := m.coll.Chunk(r)
	if !ok {
		t.Fatal("the collection does not lie in slots")
	}
	it, err := m.coll.EachOf(m.c.engine, k)
	if err != nil {
		t.Fatal(err)
	}
	n, last := 0, []byte(nil)
	for ok := it.First(); ok; ok = it.Next() {
		v, _ := it.Value()
		if n++; !inRange(key, r, v) || bytes.Compare(it.Key(), last) <= 0 {
			t.Fatalf("%s at %x is not in %v, or comes twice", bson.Doc(v), it.Key(), r)
		}
		last = bytes.Clone(it.Key())
	}
	it.Close()
	want := 0
	for id, d := range m.docs {
		if inRange(key, r, d.doc) {
			want++
			if n > 3 {
				delete(m.docs, id)
			}
		}
	}
	if n != want {
		t.Fatalf("%d documents in %v, and there are %d", n, r, want)
	}
	if n <= 3 {
		return
	}
	if all, err := removeHidden(t, m.c, &m.coll, r); err != nil || !all {
		t.Fatal(all, err)
	}
}

// drop removes what is due in windows up to an instant, and compares what is
// gone, reassigned and left with what may be.
func (m *windowTwin) drop(t *rapid.T) {
	upTo := int64(rapid.IntRange(-2000, 10000).Draw(t, "upTo"))
	w, now, rule := m.coll.sections, upTo+60000, m.coll.Rules()[0]
	fresh := m.coll.live.lowWater.Load().Max(m.coll.live.thinned.upTo.Min(w.Due(rule.Rule, now)))
	high := w.Due(rule.Rule, now)
	d, err := m.c.DropWindows(t.Context(), m.coll, Drop{Rule: rule, Now: now})
	if err != nil || d.More {
		t.Fatalf("%+v, %v", d, err)
	}
	is := map[int]uint64{}
	keys, docs := records(t, m.c.engine, m.coll)
	for i, doc := range docs {
		is[int(doc.Lookup("_id").Int32())] = keys[i].Section()
	}
	m.low = m.coll.live.lowWater.Load()
	var gone, reassigned int64
	for id, d := range m.docs {
		window, there := is[id]
		due := rule.Due(d.doc) <= now
		switch {
		case !there:
			if gone++; !due || !high.Below(d.window) {
				t.Fatalf("%s went from window %x at %d, and is due at %d", d.doc, d.window, now, rule.Due(d.doc))
			}
			delete(m.docs, id)
		case due && high.Below(d.window) && !fresh.Below(d.window) && high.Below(w.Of(d.doc)):
			t.Fatalf("%s is left in window %x at %d, and was due at %d", d.doc, d.window, now, rule.Due(d.doc))
		case window != d.window:
			if reassigned++; window != w.Of(d.doc) || high.Below(window) {
				t.Fatalf("%s went from window %x to %x", d.doc, d.window, window)
			}
			m.docs[id] = twinDoc{d.doc, window}
		case m.low.Below(window):
			t.Fatalf("%s is in window %x, which is gone", d.doc, window)
		}
	}
	if d.Docs != gone || d.Reassigned != reassigned {
		t.Fatalf("DropWindows to %d: %+v; %d are gone and %d are reassigned", upTo, d, gone, reassigned)
	}
}

func (m *windowTwin) sweep(t *rapid.T) {
	if _, err := m.c.Sweep(t.Context(), m.coll, func(time.Duration) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, any := m.coll.SweepDue(); any {
		t.Fatal("a sweep has left something")
	}
	for _, ix := range m.coll.Indexes() {
		keys, values := entriesOf(t, m.c, ix)
		for i := range keys {
			if _, record, _ := ix.Split(nil, keys[i], values[i]); m.coll.live.lowWater.Load().Dead(record) {
				t.Fatalf("entry %x of %s is dead", keys[i], ix.Name)
			}
		}
	}
}

func (m *windowTwin) check(t *rapid.T) {
	keys, docs := records(t, m.c.engine, m.coll)
	if len(docs) != len(m.docs) || m.coll.Count() != int64(len(docs)) {
		t.Fatalf("%d documents, count %d, the twin has %d", len(docs), m.coll.Count(), len(m.docs))
	}
	for i, d := range docs {
		want := m.docs[int(d.Lookup("_id").Int32())]
		if !bytes.Equal(d, want.doc) || keys[i].Section() != want.window {
			t.Fatalf("%s in window %x, the twin has %s in %x", d, keys[i].Section(), want.doc, want.window)
		}
	}
	for id := range 10 {
		record, doc, closer, err := m.coll.FindID(nil, m.c.engine, bson.Int32(int32(id)))
		if err != nil || !bytes.Equal(doc, m.docs[id].doc) {
			t.Fatalf("FindID of %d: %x %s, %v", id, record, doc, err)
		}
		if closer != nil {
			closer.Close()
		}
	}
	mustValidate(t, m.c, m.coll)
}

// TestWindowsTwin compares a collection with windows of expiry with its twin,
// over writes, drops, sweeps, builds of indexes and restarts.
func TestWindowsTwin(t *testing.T) {
	ns := schema.Namespace{DB: "d", Coll: "c"}
	rapid.Check(t, func(t *rapid.T) {
		m := &windowTwin{kind: rapid.SampledFrom(windowKinds).Draw(t, "kind"), key: rapid.SampledFrom(slotKeys).Draw(t, "shard key"), fs: storage.NewMemFS(), docs: map[int]twinDoc{}}
		m.open(t)
		defer func() { m.c.engine.Close() }()
		if _, err := m.c.Create(t.Context(), ns, nil); err != nil {
			t.Fatal(err)
		}
		index := func(spec string) {
			if _, _, err := m.c.CreateIndexes(t.Context(), ns, []bson.Doc{parse(t, spec)}); err != nil {
				t.Fatal(err)
			}
			m.coll = m.c.Lookup(ns)
		}
		late := rapid.Bool().Draw(t, "sharded after the rule")
		if m.key != "" && !late {
			lieByKey(t, m.c, ns, m.key)
		}
		index(m.kind.spec)
		if m.key != "" && late {
			m.coll = lieByKey(t, m.c, ns, m.key)
		}
		index(`{"v": 2, "key": {"u": 1}, "name": "u", "unique": true}`)
		if !m.coll.Windowed() {
			t.Fatal("the collection has no windows")
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": m.write, "write2": m.write, "write3": m.write,
			"drop": m.drop, "sweep": m.sweep, "chunk": m.chunk,
			"build": func(t *rapid.T) {
				if m.coll.Index("pad") == nil {
					index(`{"v": 2, "key": {"pad": -1}, "name": "pad"}`)
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

// TestWindowsWhere says which collections get windows of expiry.
func TestWindowsWhere(t *testing.T) {
	ttl := `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 60}`
	for _, tc := range []struct {
		name, options, index string
		filled               bool
		want                 bool
	}{
		{name: "empty", index: ttl, want: true},
		{name: "filled", index: ttl, filled: true},
		{name: "clustered", options: `{"clusteredIndex": {"key": {"_id": 1}, "unique": true, "v": 2, "name": "x"}}`, index: ttl},
		{name: "partial", index: `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 60, "partialFilterExpression": {"a": 1}}`, want: true},
		{name: "last write", index: `{"key": {"_ts": 1}, "name": "ts", "expireAfterSeconds": -1, "storageEngine": {"mayfly": {"expiry": {"by": "lastWrite"}}}}`, want: true},
		{name: "no TTL", index: `{"key": {"at": 1}, "name": "at"}`},
		{name: "dotted, descending, sparse", index: `{"key": {"a.at": -1}, "name": "at", "expireAfterSeconds": 0, "sparse": true}`, want: true},
	} {
		c := open(t, storage.NewMemFS())
		ns := schema.Namespace{DB: "d", Coll: "c"}
		var options bson.Doc
		if tc.options != "" {
			options = parse(t, tc.options)
		}
		coll, err := c.Create(t.Context(), ns, options)
		if err != nil {
			t.Fatal(tc.name, err)
		}
		if tc.filled {
			if err := write(c, coll, nil, parse(t, `{"_id": 1}`)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := c.CreateIndexes(t.Context(), ns, specs(t, ns, tc.index)); err != nil {
			t.Fatal(tc.name, err)
		}
		if got := c.Lookup(ns).Windowed(); got != tc.want {
			t.Errorf("%s: windowed is %t", tc.name, got)
		}
	}
}

// openWindowed makes a collection d.c whose windows are those of "at".
func openWindowed(t *testing.T) (*Catalog, *Collection) {
	t.Helper()
	c := open(t, storage.NewMemFS())
	ns := schema.Namespace{DB: "d", Coll: "c"}
	if _, err := c.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(t.Context(), ns, specs(t, ns, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`)); err != nil {
		t.Fatal(err)
	}
	return c, c.Lookup(ns)
}

// insertDated inserts documents with the _ids from one number up to another,
// and a date.
func insertDated(t *testing.T, c *Catalog, coll *Collection, from, to int, at int64) {
	t.Helper()
	u := c.Begin()
	defer u.Abort()
	for i := from; i < to; i++ {
		if err := u.Insert(t.Context(), coll, new(bson.Builder).Int32("_id", int32(i)).Date("at", at).Finish()); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Commit(t.Context(), storage.Buffered); err != nil {
		t.Fatal(err)
	}
}

// touchDated gives a document another date.
func touchDated(t *testing.T, c *Catalog, coll *Collection, id int, at int64) {
	t.Helper()
	u := c.Begin()
	defer u.Abort()
	record, old, err := u.LockID(t.Context(), coll, bson.Int32(int32(id)))
	if err == nil {
		err = u.Update(t.Context(), coll, record, old, new(bson.Builder).Int32("_id", int32(id)).Date("at", at).Finish())
	}
	if err == nil {
		err = u.Commit(t.Context(), storage.Buffered)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestWindowsForgotten takes documents away before their windows are due: what is
// known of those windows goes, too, but where one has a document again; that one
// stays where it was touched, as it would have before.
func TestWindowsForgotten(t *testing.T) {
	c, coll := openWindowed(t)
	const n = 2 * emptyWindows
	for i := range n {
		insertDated(t, c, coll, i, i+1, int64(i)*windowWidthMS)
	}
	known := func() (sums int) {
		err := coll.eachWindow(c.engine, LowWater{}, LowWater{}.UpTo(math.MaxUint64, LowWater{}), func(windowSum) bool { sums++; return true })
		if err != nil {
			t.Fatal(err)
		}
		return sums
	}
	touchDated(t, c, coll, 0, windowWidthMS) // its window is marked
	u := c.Begin()
	for i := range n {
		record, doc, err := u.LockID(t.Context(), coll, bson.Int32(int32(i)))
		if err == nil {
			err = u.Delete(t.Context(), coll, record, doc)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Commit(t.Context(), storage.Buffered); err != nil {
		t.Fatal(err)
	}
	insertDated(t, c, coll, n, n+1, 10*n*windowWidthMS)
	rule := coll.Rules()[0]
	if d, err := c.DropWindows(t.Context(), coll, Drop{Rule: rule, Now: 5 * n * windowWidthMS}); err != nil || d != (Dropped{}) {
		t.Fatalf("%+v, %v", d, err)
	}
	if sums := known(); sums != 1 {
		t.Errorf("%d windows are known, of 1 with a document", sums)
	}
	insertDated(t, c, coll, 0, 1, 1000)
	touchDated(t, c, coll, 0, 30*n*windowWidthMS)
	touchDated(t, c, coll, 0, 31*n*windowWidthMS) // when it is marked already
	mustValidate(t, c, coll)
	if d, err := c.DropWindows(t.Context(), coll, Drop{Rule: rule, Now: 20 * n * windowWidthMS}); err != nil || d.Docs != 1 || coll.Count() != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if v, err := c.Validate(t.Context(), coll, true); err != nil || !v.Valid {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestWindowsSweepRuns sweeps long runs of dead entries while others write
// among them: an _id that comes back stays.
func TestWindowsSweepRuns(t *testing.T) {
	c, coll := openWindowed(t)
	ctx := context.Background()
	const n = 3 * sweepStretch
	insert := func(from, to int, at int64) {
		t.Helper()
		insertDated(t, c, coll, from, to, at)
	}
	insert(0, n, 1000)
	insert(n, n+10, 90000)
	if d, err := c.DropWindows(ctx, coll, Drop{Rule: coll.Rules()[0], Now: 50000}); err != nil || d.Docs != n {
		t.Fatalf("%+v, %v", d, err)
	}
	back := 0
	s, err := c.Sweep(ctx, coll, func(time.Duration) error {
		insert(n/2+back, n/2+back+1, 1000) // behind or before the sweep
		back++
		return nil
	})
	if err != nil || s.Ranges == 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	if v := mustValidate(t, c, coll); v.Records != int64(10+back) {
		t.Errorf("%d documents after %d came back", v.Records, back)
	}
}

// TestWindowsRuleGone: a rule whose time became longer, or whose index went,
// while its windows were about to go, drops nothing.
func TestWindowsRuleGone(t *testing.T) {
	c := open(t, storage.NewMemFS())
	ns := schema.Namespace{DB: "d", Coll: "c"}
	ctx := t.Context()
	if _, err := c.Create(ctx, ns, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(ctx, ns, specs(t, ns, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`)); err != nil {
		t.Fatal(err)
	}
	coll := c.Lookup(ns)
	u := c.Begin()
	defer u.Abort()
	if err := u.Insert(ctx, coll, new(bson.Builder).Int32("_id", 1).Date("at", 1000).Finish()); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(ctx, storage.Buffered); err != nil {
		t.Fatal(err)
	}
	before := coll.Rules()[0]
	longer, err := schema.LoadIndex(specs(t, ns, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 3600}`)[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Modify(ctx, ns, func(*Collection) (Modification, error) {
		return Modification{Indexes: map[string]*schema.Index{"at": longer}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	same := &Permit{Units: new(sync.RWMutex), InForce: func(latest *Collection) bool { return latest.Rules()[0].Same(before.Rule) }}
	if d, err := c.DropWindows(ctx, coll, Drop{Rule: before, Now: 50000, Permit: same}); !errors.Is(err, ErrNoPermit) || d.Docs != 0 {
		t.Errorf("by a rule that is longer now: %+v, %v", d, err)
	}
	if d, err := c.DropWindows(ctx, coll, Drop{Rule: coll.Latest().Rules()[0], Now: 5_000_000}); err != nil || d.Docs != 1 {
		t.Errorf("by the rule as it is: %+v, %v", d, err)
	}
}

// TestWindowsSweepsAtOnce: sweeps of an index at once, beside one who writes into
// what they sweep lose no entry.
func TestWindowsSweepsAtOnce(t *testing.T) {
	c, coll := openWindowed(t)
	ctx := t.Context()
	const n = 2 * sweepStretch
	insertDated(t, c, coll, 0, n, 1000)
	insertDated(t, c, coll, n, n+10, 90000)
	if d, err := c.DropWindows(ctx, coll, Drop{Rule: coll.Rules()[0], Now: 50000}); err != nil || d.Docs != n {
		t.Fatalf("%+v, %v", d, err)
	}
	var sweeps sync.WaitGroup
	for range 8 {
		sweeps.Go(func() {
			if _, err := c.Sweep(ctx, coll, func(time.Duration) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	over := make(chan struct{})
	go func() { sweeps.Wait(); close(over) }()
	back := 0
	for sweeping := true; sweeping && back < n; back++ {
		id := back * 7919 % n // all over what is swept
		insertDated(t, c, coll, id, id+1, 1000)
		select {
		case <-over:
			sweeping = false
		default:
		}
	}
	<-over
	if v := mustValidate(t, c, coll); v.Records != int64(10+back) {
		t.Errorf("%d documents after %d came back", v.Records, back)
	}
}

// TestWindowsFollowedAndBack: a record key that was followed to another window
// stands for its own document again once there is one.
func TestWindowsFollowedAndBack(t *testing.T) {
	c, coll := openWindowed(t)
	ctx := t.Context()
	insertDated(t, c, coll, 1, 2, 1000)
	dated := func(at int64) bson.Doc { return new(bson.Builder).Int32("_id", 1).Date("at", at).Finish() }
	u := c.Begin()
	key, doc, err := u.LockID(ctx, coll, bson.Int32(1))
	if err != nil {
		t.Fatal(err)
	}
	if err = u.Update(ctx, coll, key, doc, dated(90000)); err == nil {
		err = u.reassignWindow(coll, key, dated(90000))
	}
	if err == nil {
		err = u.Commit(ctx, storage.Buffered)
	}
	if err != nil {
		t.Fatal(err)
	}
	u = c.Begin()
	defer u.Abort()
	if doc, err = u.LockRecord(ctx, coll, key); err != nil || doc == nil {
		t.Fatalf("%s, %v", doc, err)
	}
	if err = u.Delete(ctx, coll, key, doc); err == nil {
		err = u.Insert(ctx, coll, dated(1000))
	}
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = u.LockRecord(ctx, coll, key); err != nil || !bytes.Equal(doc, dated(1000)) {
		t.Fatalf("%s, %v", doc, err)
	}
	if err = u.Update(ctx, coll, key, doc, dated(2000)); err == nil {
		err = u.Commit(ctx, storage.Buffered)
	}
	if err != nil {
		t.Fatal(err)
	}
	if v := mustValidate(t, c, coll); v.Records != 1 {
		t.Errorf("%d documents", v.Records)
	}
}
