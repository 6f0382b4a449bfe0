package exec

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/exec/readahead"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
)

// rising opens a collection of n documents whose k rises with _id, but for those
// from fall on, which are below all others.
func rising(t *testing.T, n, fall int) *geoWorld {
	docs := make([]bson.Doc, n)
	for i := range docs {
		docs[i] = new(bson.Builder).Int32("_id", int32(i)).Int32("k", int32(i-i/fall*n)).Int32("p", int32(i%3)).Finish()
	}
	return newGeoWorld(t, newExecutor(t), `{"key": {"k": 1}, "name": "k"}`, docs)
}

// fetchOf is the fetch of a cursor's plan.
func fetchOf(cur *Cursor) *fetch {
	for s := cur.r.winner.stage; ; s = s.Inputs()[0] {
		if f, ok := s.(*fetch); ok {
			return f
		}
	}
}

// TestBackgroundScan reads so many documents in the order of an index that entries are
// read by a background scan: rising ones, and ones that fall in the middle, without an
// end, with limits and filters, for a reader that asks for some at a time, and for
// one that takes nothing but them. Explain tells the same as where they are not.
func TestBackgroundScan(t *testing.T) {
	const n = 8 * readahead.LeastRows
	for _, fall := range []int{n, n / 3} {
		w := rising(t, n, fall)
		for _, a := range []asked{
			{filter: `{}`}, {filter: `{"p": 1}`}, {filter: `{}`, projection: `{"k": 1}`}, {filter: `{}`, limit: 3 * readahead.LeastRows}, {filter: `{"p": 1}`, limit: readahead.LeastRows, skip: 5},
		} {
			for _, visit := range []int{n, backgroundAfter + readahead.LeastRows/2 + 1, 2 * readahead.LeastRows} {
				a.hint, a.sort = "k", `{"k": 1}`
				var stats [2]string
				var all [2][]int32
				began := false
				for i := range stats {
					q := a.query(t)
					cur, err := w.x.Find(t.Context(), w.coll, q)
					must(t, err)
					f := fetchOf(cur)
					f.prefetch.parallelizable = i == 1
					for {
						d, err := cur.Next(t.Context())
						must(t, err)
						began = began || f.prefetch.background != nil
						if d == nil {
							break
						}
						all[i] = append(all[i], d.Lookup("k").Int32())
						if len(all[i])%visit == 0 {
							must(t, cur.Park())
							if f.prefetch.background != nil {
								t.Error("a goroutine is at work for a parked cursor")
							}
							must(t, cur.Unpark(t.Context()))
						}
					}
					stats[i] = cur.ExecStats().String()
					cur.Close()
					if f.prefetch.background != nil {
						t.Error("a goroutine is at work for a closed cursor")
					}
				}
				if stats[0] != stats[1] || !slices.Equal(all[0], all[1]) {
					t.Errorf("%s, %d at a time, fall at %d: %d and %d\n%s\n%s in the background", a, visit, fall, len(all[0]), len(all[1]), stats[0], stats[1])
				}
				if !began && visit == n {
					t.Errorf("%s: not in the background", a)
				}
			}
		}
	}
}

// TestBackgroundScanEnds holds that a client that goes in the middle is told so, that a
// cursor may be closed there, and that no goroutine works for cursors that keep
// the store, nor where few are asked for.
func TestBackgroundScanEnds(t *testing.T) {
	const n = 8 * readahead.LeastRows
	w := rising(t, n, n)
	gone := errors.New("the client has gone")
	read := func(ctx context.Context, q *Query, until int, do func(f *fetch)) (int, error) {
		cur, err := w.x.Find(ctx, w.coll, q)
		must(t, err)
		defer cur.Close()
		for i := 0; ; i++ {
			d, err := cur.Next(ctx)
			if d == nil || err != nil || i == 2*until {
				return i, err
			}
			if i == until {
				do(fetchOf(cur))
			}
		}
	}
	a := asked{filter: `{}`, hint: "k", sort: `{"k": 1}`}
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := read(ctx, a.query(t), 2*readahead.LeastRows, func(f *fetch) {
		if f.prefetch.background == nil {
			t.Error("not in the background")
		}
		cancel(gone)
	}); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if i, err := read(t.Context(), a.query(t), 2*readahead.LeastRows, func(*fetch) {}); err != nil || i != 4*readahead.LeastRows {
		t.Errorf("%d, %v", i, err)
	}
	held := a.query(t)
	held.PinsSnapshot = true
	few := a.query(t)
	few.Batch = readahead.LeastRows
	for _, q := range []*Query{held, few} {
		if _, err := read(t.Context(), q, readahead.LeastRows/2, func(f *fetch) {
			if f.prefetch.background != nil {
				t.Error("in the background for a cursor that keeps the store, or for few")
			}
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestParkBeforeFirst parks a cursor whose scan has read ahead and handed on nothing
// of that yet: where a trial of plans ended, and the client wants an empty batch.
func TestParkBeforeFirst(t *testing.T) {
	const n = 4000
	docs := make([]bson.Doc, n)
	for i := range docs {
		docs[i] = new(bson.Builder).Int32("_id", int32(i)).Int32("k", int32(i*7919%n)).Int32("p", int32(i%3)).Finish()
	}
	w := newGeoWorld(t, newExecutor(t), `{"key": {"k": 1, "p": 1}, "name": "k"}`, docs)
	for _, sort := range []string{`{"k": 1}`, `{"k": -1}`} {
		a := asked{filter: `{"k": {"$gte": 0}, "p": 1}`, hint: "k", sort: sort}
		cur, err := w.x.Find(t.Context(), w.coll, a.query(t))
		must(t, err)
		f := fetchOf(cur)
		before, parked := 0, false
		for !parked {
			var row stage.Row
			state, err := f.Work(t.Context(), &row)
			must(t, err)
			switch {
			case state == stage.EOF:
				t.Fatal("nothing was read ahead in a unit of work of its own")
			case state == stage.Advanced:
				before++
			case f.prefetch.next == 0 && f.prefetch.Len() > 0:
				parked = true
			}
		}
		must(t, cur.Park())
		must(t, cur.Unpark(t.Context()))
		got := before
		for {
			d, err := cur.Next(t.Context())
			must(t, err)
			if d == nil {
				break
			}
			got++
		}
		cur.Close()
		if want := 1333; got != want {
			t.Errorf("%s: %d documents, want %d", a, got, want)
		}
	}
}
