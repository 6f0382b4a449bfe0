package catalog

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// listing is a Committer that keeps what was told to have expired.
type listing struct {
	t     *testing.T
	c     *Catalog
	units [][]int32 // _ids, by the units that told them
	other int       // ranges that were told by their bounds
	saw   func(batch []byte)
}

func (k *listing) Writable() error { return nil }

func (k *listing) Commit(ctx context.Context, e *Effect, d storage.Durability) error {
	all, _, err := DecodeOperations(e.AppendEncoded(nil))
	if err != nil {
		return err
	}
	for _, op := range all {
		switch op.Kind {
		case OpExpired:
			var ids []int32
			for _, id := range op.IDs {
				ids = append(ids, id.Int32())
			}
			k.units = append(k.units, ids)
		case OpRange:
			k.other++
		}
	}
	if k.saw != nil {
		k.saw(e.u.Batch())
	}
	return e.Commit(ctx, d)
}

// told is all _ids that were told, in order.
func (k *listing) told() []int32 {
	all := slices.Concat(k.units...)
	slices.Sort(all)
	return all
}

// openListing makes a collection with windows, whose operations are told.
func openListing(t *testing.T) (*listing, *Collection) {
	k := &listing{t: t}
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if k.c, err = Open(e, Options{Committer: k, Operations: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(k.c.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	})
	ns := schema.Namespace{DB: "d", Coll: "c"}
	if _, err := k.c.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.c.CreateIndexes(t.Context(), ns, specs(t, ns, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`)); err != nil {
		t.Fatal(err)
	}
	return k, k.c.Lookup(ns)
}

func numbers(from, to int) (all []int32) {
	for i := from; i < to; i++ {
		all = append(all, int32(i))
	}
	return all
}

// deleteDated deletes a document.
func deleteDated(t *testing.T, c *Catalog, coll *Collection, id int) {
	t.Helper()
	err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
		record, old, err := u.LockID(t.Context(), coll, bson.Int32(int32(id)))
		if err != nil || old == nil {
			return err
		}
		return u.Delete(t.Context(), coll, record, old)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestExpiredListFollows changes what is due between the moment in which it was listed
// and the drop: the list is what goes (invariant exact-window).
func TestExpiredListFollows(t *testing.T) {
	k, coll := openListing(t)
	const n, due = 2 * listedAtOnce, 20 * windowWidthMS
	insertDated(t, k.c, coll, 0, n, due-windowWidthMS)
	insertDated(t, k.c, coll, n, n+1, 100*due)
	coll = coll.Latest()
	x := dropper{c: k.c, coll: coll, at: k.c.evaluate(), rule: coll.Rules()[0], now: due, begun: time.Now(), o: Drop{}, d: &Dropped{}, low: coll.live.lowWater.Load()}
	x.from, x.cut = x.low, coll.sections.Due(x.rule.Rule, due)
	if err := x.readSums(); err != nil {
		t.Fatal(err)
	}
	upTo, list, err := x.listPart()
	if err != nil || list == nil || list.n != n || upTo != x.cut {
		t.Fatalf("%+v up to %v: %v", list, upTo, err)
	}
	deleteDated(t, k.c, coll, 1)                             // is gone
	insertDated(t, k.c, coll, n+1, n+2, due-2*windowWidthMS) // has come, and is due
	deleteDated(t, k.c, coll, 2)                             // is gone, and comes
	insertDated(t, k.c, coll, 2, 3, due-3*windowWidthMS)     // again elsewhere
	touchDated(t, k.c, coll, 3, due-5*windowWidthMS)         // stays where it is
	insertDated(t, k.c, coll, n+2, n+3, 100*due)             // is not due
	u := k.c.Begin()                                         // nothing of this happens
	if err := u.Insert(t.Context(), coll, parse(t, `{"_id": -1, "at": {"$date": {"$numberLong": "1"}}}`)); err != nil {
		t.Fatal(err)
	}
	u.Abort()
	coll.live.gate.Lock()
	sum, _, err := x.sum(upTo)
	if err == nil {
		list, err = x.finishList(list, upTo, sum[windowDocs])
	}
	coll.live.gate.Unlock()
	x.endList()
	if err != nil || int64(list.n) != sum[windowDocs] || list.n != n {
		t.Fatalf("%d are listed, %d there: %v", list.n, sum[windowDocs], err)
	}
	want := append(numbers(0, n), n+1)
	want = slices.DeleteFunc(want, func(i int32) bool { return i == 1 })
	var got []int32
	for rest := list.bytes; len(rest) > 0; {
		v, after, ok := bson.CutTyped(rest)
		if !ok {
			t.Fatal("the list is damaged")
		}
		got, rest = append(got, v.Int32()), after
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if coll.live.listWatch.Load() != nil {
		t.Error("the watch is still set")
	}
}

// TestExpiredListParts has more documents than one unit tells of: each window goes with
// its list, in a unit of its own.
func TestExpiredListParts(t *testing.T) {
	k, coll := openListing(t)
	const n, windows = listedDocs * 2 / 3, 3
	for w := range windows {
		for i := 0; i < n; i += 4096 {
			insertDated(t, k.c, coll, w*n+i, w*n+min(i+4096, n), int64(w)*windowWidthMS)
		}
	}
	insertDated(t, k.c, coll, windows*n, windows*n+1, 1000*windowWidthMS)
	d, err := k.c.DropWindows(t.Context(), coll, Drop{Rule: coll.Latest().Rules()[0], Now: 100 * windowWidthMS})
	if err != nil || d.Docs != windows*n || d.Windows != windows || d.More || coll.Count() != 1 {
		t.Fatalf("%+v: %v", d, err)
	}
	if len(k.units) != windows || k.other != 0 || !slices.Equal(k.told(), numbers(0, windows*n)) {
		t.Errorf("%d units have told of %d documents, %d of ranges", len(k.units), len(k.told()), k.other)
	}
}

// TestExpiredListConcurrent drops while others insert, delete and touch what is due. Each
// document that a drop took is told, and no other.
func TestExpiredListConcurrent(t *testing.T) {
	k, coll := openListing(t)
	const n, due = 4 * listedAtOnce, 20 * windowWidthMS
	insertDated(t, k.c, coll, 0, n, due-windowWidthMS)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var deleted, later sync.Map
	for w := range 3 {
		writers.Go(func() {
			for i := w; i < n; i += 3 {
				select {
				case <-stop:
					return
				default:
				}
				switch i % 4 {
				case 0:
					err := k.c.Run(context.Background(), storage.Buffered, func(u *Unit) error {
						deleted.Delete(int32(i))
						record, old, err := u.LockID(context.Background(), coll, bson.Int32(int32(i)))
						if err != nil || old == nil {
							return err
						}
						deleted.Store(int32(i), true)
						return u.Delete(context.Background(), coll, record, old)
					})
					if err != nil {
						t.Error(err)
					}
				case 1:
					err := k.c.Run(context.Background(), storage.Buffered, func(u *Unit) error {
						later.Delete(int32(i))
						record, old, err := u.LockID(context.Background(), coll, bson.Int32(int32(i)))
						if err != nil || old == nil {
							return err
						}
						later.Store(int32(i), true)
						return u.Update(context.Background(), coll, record, old, new(bson.Builder).Int32("_id", int32(i)).Date("at", 100*due).Finish())
					})
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 3 {
		if _, err := k.c.DropWindows(t.Context(), coll, Drop{Rule: coll.Latest().Rules()[0], Now: due}); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	writers.Wait()
	for {
		d, err := k.c.DropWindows(t.Context(), coll, Drop{Rule: coll.Latest().Rules()[0], Now: due})
		if err != nil {
			t.Fatal(err)
		}
		if d.Docs == 0 && !d.More {
			break
		}
	}
	want := slices.DeleteFunc(numbers(0, n), func(i int32) bool {
		_, gone := deleted.Load(i)
		_, lives := later.Load(i)
		return gone || lives
	})
	if got := k.told(); !slices.Equal(got, want) {
		t.Errorf("%d are told, %d went", len(got), len(want))
	}
}

// TestExpiredListOff tells of a range by its bounds, where nobody wants more.
func TestExpiredListOff(t *testing.T) {
	k, coll := openListing(t)
	insertDated(t, k.c, coll, 0, 10, windowWidthMS)
	k.c.NoExpiredList.Store(true)
	d, err := k.c.DropWindows(t.Context(), coll, Drop{Rule: coll.Latest().Rules()[0], Now: 100 * windowWidthMS})
	if err != nil || d.Docs != 10 || k.other != 1 || len(k.units) != 0 {
		t.Errorf("%+v, %d ranges, %v: %v", d, k.other, k.units, err)
	}
}

// TestDropRests has a removal whose documents are told rest between its units and while it
// lists: it holds nothing then, others write, and a brake that replies in the rest is the end of
// it (invariant brake).
func TestDropRests(t *testing.T) {
	k, coll := openListing(t)
	const units, due = 4, 100 * windowWidthMS
	for i := range units {
		insertDated(t, k.c, coll, i*listedDocs, (i+1)*listedDocs, due-int64(units-i)*2*windowWidthMS)
	}
	insertDated(t, k.c, coll, units*listedDocs, units*listedDocs+1, 100*due)
	coll = coll.Latest()
	permit := &Permit{Units: new(sync.RWMutex), InForce: func(*Collection) bool { return true }}
	rests, gone := 0, int64(0)
	restsIn := map[int64]int{} // by the number of documents that were gone
	var work, took time.Duration
	o := Drop{Did: func(d Dropped, t time.Duration) { gone, took = gone+d.Docs, took+t }, Rule: coll.Rules()[0], Now: due, Permit: permit, Rest: func(worked time.Duration, alone bool) error {
		rests++
		restsIn[gone]++
		work += worked
		if !alone || worked <= 0 {
			t.Errorf("a rest after %v, alone: %v", worked, alone)
		}
		time.Sleep(time.Millisecond)
		if !permit.Units.TryLock() {
			t.Error("a unit is still running")
			return nil
		}
		permit.Units.Unlock()
		if !coll.live.gate.TryLock() {
			t.Error("the gate is closed")
			return nil
		}
		coll.live.gate.Unlock()
		insertDated(t, k.c, coll, units*listedDocs+rests, units*listedDocs+rests+1, 100*due)
		if restsIn[2*listedDocs] == 2 {
			permit.InForce = func(*Collection) bool { return false }
		}
		return nil
	}}
	if d, err := k.c.DropWindows(t.Context(), coll, o); !errors.Is(err, ErrNoPermit) || d.Docs != 2*listedDocs {
		t.Fatalf("%+v after %d rests: %v", d, rests, err)
	}
	// The third unit was listed, but not removed: what it took is in none that was counted.
	const parts = listedDocs / listedStep
	if restsIn[0] != parts || restsIn[listedDocs] != 1+parts || restsIn[2*listedDocs] != 1+parts {
		t.Errorf("rests by what was gone: %v", restsIn)
	}
	if rested := time.Duration(rests) * time.Millisecond; took <= 0 || work <= 0 || took > work {
		t.Errorf("the units took %v, and it rested for %v of work, %v long", took, work, rested)
	}
	permit.InForce = func(*Collection) bool { return true }
	ended := errors.New("ended")
	gone = 0
	o.Rest = func(time.Duration, bool) error {
		if gone > 0 {
			return ended
		}
		return nil
	}
	if d, err := k.c.DropWindows(t.Context(), coll.Latest(), o); !errors.Is(err, ended) || d.Docs != listedDocs {
		t.Fatalf("%+v: %v", d, err)
	}
	o.Rest = func(time.Duration, bool) error { return ended }
	if d, err := k.c.DropWindows(t.Context(), coll.Latest(), o); !errors.Is(err, ended) || d.Docs != 0 {
		t.Fatalf("%+v: %v", d, err)
	}
	o.Rest = nil
	if d, err := k.c.DropWindows(t.Context(), coll.Latest(), o); err != nil || d.Docs != listedDocs || d.More {
		t.Fatalf("%+v: %v", d, err)
	}
	if told := k.told(); !slices.Equal(told, numbers(0, units*listedDocs)) {
		t.Errorf("%d documents were told", len(told))
	}
}

// TestRangesDoNotOverlap has each unit remove what is between the low water before it and the
// one after it, and nothing of what is below: a reader would find as many tombstones on each
// place as there were units.
func TestRangesDoNotOverlap(t *testing.T) {
	k, coll := openListing(t)
	const units = 6
	for i := range units {
		insertDated(t, k.c, coll, i*listedDocs, (i+1)*listedDocs, int64(2*(i+1))*windowWidthMS)
	}
	insertDated(t, k.c, coll, units*listedDocs, units*listedDocs+1, 1000*windowWidthMS)
	coll = coll.Latest()
	removed := 0
	k.saw = func(batch []byte) {
		low := coll.live.lowWater.Load()
		from := coll.sections.Spans(low, coll.sections.Due(coll.Rules()[0].Rule, 500*windowWidthMS))[0].From
		if !bytes.Contains(batch, windowKey(nil, coll.Ident, from)) {
			t.Errorf("unit %d does not begin at %v", removed, low)
		}
		if removed > 0 && bytes.Contains(batch, windowKey(nil, coll.Ident, 0)) {
			t.Errorf("unit %d begins at the first window again", removed)
		}
		removed++
	}
	if d, err := k.c.DropWindows(t.Context(), coll, Drop{Rule: coll.Rules()[0], Now: 500 * windowWidthMS}); err != nil || d.Docs != units*listedDocs {
		t.Fatalf("%+v: %v", d, err)
	}
	if removed != units {
		t.Errorf("%d units removed them", removed)
	}
}
