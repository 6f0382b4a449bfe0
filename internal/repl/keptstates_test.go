package repl

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// insertLarge inserts a document of so many bytes, and returns its time.
func (p *process) insertLarge(id int32, bytes int) (Timestamp, error) {
	o := new(OpTime)
	ctx := WithOpTime(context.Background(), o)
	coll := p.Catalog().Lookup(testNamespace)
	err := p.Catalog().Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		return u.Insert(ctx, coll, new(bson.Builder).Int32("_id", id).Binary("b", 0, random(bytes)).Finish())
	})
	return o.Last().Time, err
}

// TestKeptStatesAreBounded: whatever is read, no more states are kept than maxKeptStates, nor more
// bytes of those that are made than maxKeptLaid; a state that is gone can be made again, and one
// that would be too large is refused. When the window of history is over, all are gone.
func TestKeptStatesAreBounded(t *testing.T) {
	ms := newMachines(t)
	a := ms.member("a:1", storage.NewMemFS())
	if err := a.Initiate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	k := a.KeptStates()
	k.SetHistory(time.Hour)
	if _, err := a.insert(-1); err != nil {
		t.Fatal(err)
	}
	read := func(at Timestamp) error {
		s, err := a.StateAt(at)
		if err == nil {
			s.Close()
		}
		if len(k.all) > maxKeptStates || k.laid > maxKeptLaid {
			t.Fatalf("%d states with %d bytes are kept", len(k.all), k.laid)
		}
		sum := 0
		for _, s := range k.all {
			sum += s.laid
		}
		if sum != k.laid {
			t.Fatalf("states have %d bytes, and %d are counted", sum, k.laid)
		}
		return err
	}
	must := func(at Timestamp) {
		t.Helper()
		if err := read(at); err != nil {
			t.Fatal(err)
		}
	}
	must(0)
	var times []Timestamp
	var err error
	for i := range int32(20) { // the states between hold 1 to 20 MB
		at, err := a.insertLarge(i, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, at)
	}
	must(0)
	for range 2 { // the second time the first ones are gone
		for _, at := range times {
			must(at)
		}
	}
	if n := k.counts.evicted.Load(); n < 20 {
		t.Errorf("%d states had to go", n)
	}
	var first Timestamp
	for _, from := range []int{maxEffectBytes, 512 << 10} { // effects that are an entry, and chains
		a.chains.from, a.chains.part = from, 256<<10
		k.mu.Lock()
		for len(k.all) > 0 { // as if nobody had read
			k.dropLocked(0)
		}
		k.mu.Unlock()
		must(0)
		first = k.all[0].at.Time
		var far Timestamp
		for i := range int32(34) {
			if far, err = a.insertLarge(int32(from)+i, 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.insert(int32(from) + 100); err != nil {
			t.Fatal(err)
		}
		if err := read(far); !mongoerr.Is(err, mongoerr.SnapshotTooOld) {
			t.Errorf("a state with 34 MB over another one: %v", err)
		}
	}
	k.mu.Lock()
	for range maxKeptStates + 100 { // as if something had been written before each
		last := *k.all[len(k.all)-1]
		last.s, last.taken = a.Catalog().Engine().KeepState(), time.Now()
		k.keepLocked(&last)
		if len(k.all) > maxKeptStates {
			t.Fatalf("%d states are kept", len(k.all))
		}
	}
	k.mu.Unlock()
	if len(k.all) != maxKeptStates {
		t.Errorf("%d states are kept", len(k.all))
	}
	must(first) // which stays longest
	s, err := a.StateAt(0)
	if err != nil {
		t.Fatal(err)
	}
	k.SetHistory(time.Millisecond)
	time.Sleep(2 * time.Millisecond)
	if err := s.Check(); !mongoerr.Is(err, mongoerr.SnapshotTooOld) {
		t.Errorf("the window is over, and a reader goes on: %v", err)
	}
	s.Close()
	k.SetHistory(time.Millisecond)
	if len(k.all) > 0 || k.laid != 0 {
		t.Errorf("the window is over, and %d states with %d bytes are kept", len(k.all), k.laid)
	}
	a.kill()
}

// random are bytes that do not become fewer.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// BenchmarkMadeState is a state of an earlier time that is made of one of before and so many
// inserts of a document of 300 bytes. It is not kept, so each is made anew.
func BenchmarkMadeState(b *testing.B) {
	for _, n := range []int32{1, 50, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := newMachines(b).member("a:1", storage.NewMemFS())
			defer a.kill()
			if err := a.Initiate(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
			k := a.KeptStates()
			k.SetHistory(time.Hour)
			if _, err := a.insert(-1); err != nil {
				b.Fatal(err)
			}
			take := func() {
				s, err := a.StateAt(0)
				if err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
			take()
			var at Timestamp
			var err error
			for i := range n {
				if at, err = a.insertLarge(i, 300); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := a.insert(-2); err != nil {
				b.Fatal(err)
			}
			take()
			for b.Loop() {
				s, err := a.StateAt(at)
				if err != nil {
					b.Fatal(err)
				}
				s.Close()
				k.mu.Lock()
				k.dropLocked(len(k.all) - 1)
				k.mu.Unlock()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/write")
		})
	}
}
