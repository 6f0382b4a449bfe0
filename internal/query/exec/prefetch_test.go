package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/query/exec/readahead"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// thing is a document of TestPrefetch.
type thing struct {
	ks  []int32 // one, or an array in k
	p   int32
	due int64 // in milliseconds since 1970; 0: never
	pad int
}

func (d thing) doc(id int32) bson.Doc {
	b := new(bson.Builder).Int32("_id", id)
	if len(d.ks) == 1 {
		b.Int32("k", d.ks[0])
	} else {
		b.OpenArray("k")
		for i, k := range d.ks {
			b.Int32(bson.Index(i), k)
		}
		b.Close()
	}
	b.Int32("p", d.p)
	if d.due != 0 {
		b.Date("due", d.due)
	}
	return b.String("pad", fmt.Sprintf("%*d", d.pad, id)).Finish()
}

// orderly is a cursor over things in the order of the index on k, and what it
// is to return.
type orderly struct {
	rt   *rapid.T
	h    *house
	coll *catalog.Collection
	now  *time.Time

	things             map[int32]thing
	next               int32 // the next _id
	multikey, expiring bool
	rising             bool  // k with _id
	drawn              int32 // so many things

	descending          bool // the index
	backward, projected bool
	from, to            int32 // k is in [from, to)
	not                 int32 // and not this
	atLeast             int32 // of p
	skip, limit         int64

	place *pair // of the entry that was passed last
	seen  map[int32]bool
	out   int64
}

type pair struct{ k, id int32 }

// compare is the order in which entries are passed: equal ones in that of their
// records, or against it where the scan goes against the index.
func (o *orderly) compare(x, y pair) int {
	k, id := cmp.Compare(x.k, y.k), cmp.Compare(x.id, y.id)
	if o.backward {
		k = -k
	}
	if o.backward != o.descending {
		id = -id
	}
	return cmp.Or(k, id)
}

// drawnBits are the lower bits of k that count the things, where some expire.
const drawnBits = 20

// draw makes a thing. Where some expire, no two have the same k, also not one after the
// other: records are in the order of windows of expiry then, and so are equal entries. A
// thing that is removed and comes again under the same k may lie before a cursor that has
// passed it, and is seen again.
func (o *orderly) draw(id int32) thing {
	d := thing{p: rapid.Int32Range(0, 3).Draw(o.rt, "p"), pad: rapid.SampledFrom([]int{1, 1, 40, 400}).Draw(o.rt, "pad")}
	k := rapid.Int32Range(0, 60).Draw(o.rt, "k")
	if o.drawn++; o.expiring {
		k = k<<drawnBits | o.drawn
		if s := rapid.IntRange(-100, 100).Draw(o.rt, "due"); s > -50 {
			d.due = o.now.Add(time.Duration(s) * time.Second).UnixMilli()
		}
	}
	switch {
	case o.rising && o.expiring:
		k = o.drawn
	case o.rising:
		k = id
	}
	d.ks = []int32{k}
	for o.multikey && rapid.Bool().Draw(o.rt, "more") {
		d.ks = append(d.ks, rapid.Int32Range(0, 60).Draw(o.rt, "k"))
	}
	return d
}

// change writes n things anew, changes or removes them.
func (o *orderly) change(n int) {
	ctx := context.Background()
	w := o.h.exec.NewWriter(storage.Buffered)
	defer w.Abort()
	for range n {
		id := o.next
		if o.next > 0 && rapid.Bool().Draw(o.rt, "old") {
			id = rapid.Int32Range(0, o.next-1).Draw(o.rt, "id")
		}
		if _, there := o.things[id]; there {
			// Not by a query: what is hidden goes, too.
			err := w.Do(ctx, func(u *catalog.Unit) error {
				record, doc, err := u.LockID(ctx, o.coll, bson.Int32(id))
				if err != nil {
					return err
				}
				return u.Delete(ctx, o.coll, record, doc)
			})
			if err != nil {
				o.rt.Fatal(err)
			}
			delete(o.things, id)
			if rapid.Bool().Draw(o.rt, "removed") {
				continue
			}
		}
		o.next = max(o.next, id+1)
		o.things[id] = o.draw(id)
		if err := w.Insert(ctx, o.coll, o.things[id].doc(id)); err != nil {
			o.rt.Fatal(err)
		}
	}
	if err := w.Commit(ctx); err != nil {
		o.rt.Fatal(err)
	}
}

// query is what is asked.
func (o *orderly) query() *Query {
	a := asked{hint: "k", sort: `{"k": 1}`, skip: o.skip, limit: o.limit}
	if o.backward {
		a.sort = `{"k": -1}`
	}
	a.filter = fmt.Sprintf(`{"p": {"$gte": %d}, "k": {"$gte": %d, "$lt": %d, "$ne": %d}}`, o.atLeast, o.from, o.to, o.not)
	if o.from == 0 && o.atLeast == 0 {
		a.filter = `{}`
	}
	if o.projected {
		a.projection = `{"p": 1}`
	}
	q := a.query(o.rt)
	q.FullyConsumed = rapid.Bool().Draw(o.rt, "drained")
	return q
}

func (o *orderly) bounded() bool { return o.from != 0 || o.atLeast != 0 }

// visit asks for n documents of one state of the collection, of which it
// already was asked for others, and says whether that was all.
func (o *orderly) visit(cur *Cursor, n int) (ended bool) {
	ctx := context.Background()
	var entries []pair
	for id, d := range o.things {
		for _, k := range d.ks {
			if !o.bounded() || k >= o.from && k < o.to && k != o.not {
				entries = append(entries, pair{k, id})
			}
		}
	}
	slices.SortFunc(entries, o.compare)
	things, now := maps.Clone(o.things), o.now.UnixMilli()
	for _, e := range entries {
		if o.place != nil && o.compare(e, *o.place) <= 0 {
			continue
		}
		if n == 0 || o.limit > 0 && o.out == o.limit {
			break
		}
		o.place = &e
		d := things[e.id]
		if o.multikey && o.seen[e.id] {
			continue
		}
		o.seen[e.id] = true
		if d.due != 0 && d.due <= now || o.bounded() && d.p < o.atLeast {
			continue
		}
		if o.skip > 0 {
			o.skip--
			continue
		}
		if n--; n == 3 && rapid.Bool().Draw(o.rt, "under way") {
			o.change(3) // which the cursor does not see yet
		}
		o.out++
		got, err := cur.Next(ctx)
		if err != nil || got == nil {
			o.rt.Fatalf("%v, %v, not the thing %d under %d", got, err, e.id, e.k)
		}
		if got.Lookup("_id").Int32() != e.id || got.Lookup("p").Int32() != d.p || !o.projected && got.String() != d.doc(e.id).String() {
			o.rt.Fatalf("%v, not the thing %d: %+v", got, e.id, d)
		}
	}
	if n > 0 {
		if got, err := cur.Next(ctx); got != nil || err != nil {
			o.rt.Fatalf("%v, %v, not the end", got, err)
		}
	}
	return n > 0
}

// TestPrefetch reads things in the order of an index, some at a time, while
// others are added, changed, removed and become hidden: each time the cursor
// goes on behind the entry that it passed last, in the state of the moment at
// which it is asked, and examines what it passes and nothing else.
func TestPrefetch(t *testing.T) {
	early := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := early.Add(1000 * time.Hour)
	// A clock follows back at once; forward to where it was then, too.
	clock := catalog.NewClock(func() time.Time { return now })
	e, c := replay.Open(t, storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 8 << 20}, catalog.Options{Clock: clock})
	h := &house{e, c, &Executor{Catalog: c}}
	defer h.close(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		now = early
		n++
		o := &orderly{rt: rt, h: h, now: &now, things: map[int32]thing{}, seen: map[int32]bool{}}
		ns := schema.Namespace{DB: "d", Coll: fmt.Sprintf("prefetch%d", n)}
		o.begin(ns)
		defer func() {
			if _, err := h.catalog.Drop(context.Background(), ns); err != nil {
				t.Fatal(err)
			}
		}()
		cur, err := h.exec.Find(context.Background(), o.coll, o.query())
		if err != nil {
			rt.Fatal(err)
		}
		defer cur.Close()
		if has(cur.r.winner.node, func(n plan.Node) bool { _, sorts := n.(*plan.Sort); return sorts }) {
			rt.Fatalf("the plan sorts: %s", plan.Signature(cur.r.winner.node))
		}
		o.run(cur)
	})
}

// begin makes the collection, and what is asked of it.
func (o *orderly) begin(ns schema.Namespace) {
	rt := o.rt
	o.multikey = rapid.IntRange(0, 3).Draw(rt, "multikey") == 0
	o.expiring = !o.multikey && rapid.IntRange(0, 2).Draw(rt, "expiring") == 0
	o.rising = !o.multikey && rapid.Bool().Draw(rt, "rising")
	var options bson.Doc
	specs := []string{`{"key": {"k": 1}, "name": "k"}`}
	if o.descending = rapid.Bool().Draw(rt, "descending"); o.descending {
		specs[0] = `{"key": {"k": -1}, "name": "k"}`
	}
	if o.expiring {
		options = bson.MustParse(`{"storageEngine": {"mayfly": {"expiry": {"visibility": "immediate"}}}}`)
		specs = append(specs, `{"key": {"due": 1}, "name": "due", "expireAfterSeconds": 0}`)
	}
	if _, err := o.h.catalog.Create(context.Background(), ns, options); err != nil {
		rt.Fatal(err)
	}
	o.h.index(rt, ns, specs)
	o.coll = o.h.catalog.Lookup(ns)
	o.change(rapid.SampledFrom([]int{0, 5, 150, 300, 600, 2 * readahead.LeastRows}).Draw(rt, "things"))
	o.backward, o.projected = rapid.Bool().Draw(rt, "backward"), rapid.Bool().Draw(rt, "projected")
	if !o.multikey && !o.rising && rapid.Bool().Draw(rt, "bounded") {
		o.from, o.to, o.not = 5, 55, rapid.Int32Range(0, 60).Draw(rt, "not")
		if o.expiring {
			o.from, o.to = o.from<<drawnBits, o.to<<drawnBits
		}
		o.atLeast = rapid.Int32Range(0, 2).Draw(rt, "least p")
	}
	if rapid.Bool().Draw(rt, "limited") {
		o.limit = rapid.SampledFrom([]int64{1, 50, 110, 200}).Draw(rt, "limit")
	}
	if rapid.Bool().Draw(rt, "skips") {
		o.skip = rapid.Int64Range(0, 120).Draw(rt, "skip")
	}
}

// run reads all, some at a time.
func (o *orderly) run(cur *Cursor) {
	for !o.visit(cur, rapid.SampledFrom([]int{1, 40, 101, 130, 600, 3 * readahead.LeastRows / 2}).Draw(o.rt, "visit")) {
		if err := cur.Park(); err != nil {
			o.rt.Fatal(err)
		}
		o.change(rapid.IntRange(0, 10).Draw(o.rt, "changes"))
		*o.now = o.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(o.rt, "seconds")) * time.Second)
		if err := cur.Unpark(context.Background()); err != nil {
			o.rt.Fatal(err)
		}
	}
}

// TestPrefetchCounts asks the same with and without reading ahead: explain tells
// the same of the scan.
func TestPrefetchCounts(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer h.close(t)
	ctx := t.Context()
	ns := schema.Namespace{DB: "d", Coll: "counts"}
	if _, err := h.catalog.Create(ctx, ns, nil); err != nil {
		t.Fatal(err)
	}
	h.index(t, ns, []string{`{"key": {"j": 1, "k": 1}, "name": "jk"}`, `{"key": {"k": 1}, "name": "k"}`, `{"key": {"l": 1}, "name": "l"}`})
	c := h.catalog.Lookup(ns)
	w := h.exec.NewWriter(storage.Buffered)
	for i := range int32(2000) {
		doc := new(bson.Builder).Int32("_id", i).Int32("j", i%10).Int32("k", i*7919%2000).Int32("p", i%3)
		doc.OpenArray("l").Int32("0", i*31%50).Int32("1", i*17%50).Close()
		if err := w.Insert(ctx, c, doc.Finish()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	for _, a := range []asked{
		{filter: `{"j": {"$in": [1, 3, 5, 7]}, "k": {"$gt": 5}, "p": 1}`, hint: "jk"},
		{filter: `{"k": {"$gte": 100, "$lt": 1500}, "p": 1}`, hint: "k"},
		{filter: `{"l": {"$gte": 3}}`, hint: "l"},
	} {
		for _, a.limit = range []int64{0, 50, 150, 400} {
			var stats [2]string
			for i := range stats {
				cur, err := h.exec.Find(ctx, c, a.query(t))
				if err != nil {
					t.Fatal(err)
				}
				for s := cur.r.winner.stage; i == 0; s = s.Inputs()[0] {
					if f, ok := s.(*fetch); ok {
						f.prefetch.scan = nil
						break
					}
				}
				for d := bson.Empty; d != nil; {
					if d, err = cur.Next(ctx); err != nil {
						t.Fatal(err)
					}
				}
				stats[i] = cur.ExecStats().String()
				cur.Close()
			}
			if stats[0] != stats[1] {
				t.Errorf("%s limit %d:\n%s\n%s with reading ahead", a, a.limit, stats[0], stats[1])
			}
		}
	}
}

// TestPartsTogether reads so many documents in the order of an index that two
// goroutines share them: small ones, ones that do not all fit in memory at once,
// and for a client that goes in the middle.
func TestPartsTogether(t *testing.T) {
	for _, pad := range []int{1, 2 * readahead.MaxBytes / (3 * sharedRows)} {
		const n = 3 * sharedRows
		docs := make([]bson.Doc, n)
		for i := range docs {
			k := i * 7919 % n // each once, and far from the one before
			docs[i] = new(bson.Builder).Int32("_id", int32(i)).Int32("k", int32(k)).String("pad", strings.Repeat("x", pad)).Finish()
		}
		w := newGeoWorld(t, newExecutor(t), `{"key": {"k": 1}, "name": "k"}`, docs)
		question := asked{filter: `{}`, sort: `{"k": 1}`, hint: "k"}
		for _, drained := range []bool{true, false} {
			q := question.query(t)
			q.FullyConsumed = drained
			cur, err := w.x.Find(context.Background(), w.coll, q)
			must(t, err)
			for i := range n {
				d, err := cur.Next(context.Background())
				must(t, err)
				if d == nil || d.Lookup("k").Int32() != int32(i) || d.String() != docs[d.Lookup("_id").Int32()].String() {
					t.Fatalf("%v is in place %d", d, i)
				}
			}
			if d, err := cur.Next(context.Background()); d != nil || err != nil {
				t.Fatalf("%v, %v, not the end", d, err)
			}
			cur.Close()
		}
		gone := errors.New("the client has gone")
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		q := question.query(t)
		q.FullyConsumed = true
		cur, err := w.x.Find(context.Background(), w.coll, q)
		must(t, err)
		for i := 0; err == nil; i++ {
			if i == prefetchAfter {
				cancel(gone) // before the first are read ahead
			}
			_, err = cur.Next(ctx)
		}
		cur.Close()
		if !errors.Is(err, gone) {
			t.Fatalf("%v", err)
		}
	}
}
