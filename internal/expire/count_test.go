package expire

import (
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestCountWhileRemoving counts a collection that hides what is due, all the
// while that it is removed, one by one and as ranges: the number is the same at
// each instant.
func TestCountWhileRemoving(t *testing.T) {
	for name, windows := range map[string]bool{"documents": false, "windows": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			defer w.close()
			w.cat.NoWindows.Store(!windows)
			w.must(new(bson.Builder).String("create", "c").OpenDoc("storageEngine").OpenDoc("mayfly").OpenDoc("expiry").
				String("visibility", "immediate").Close().Close().Close().Finish())
			w.must(new(bson.Builder).String("createIndexes", "c").OpenArray("indexes").OpenDoc("0").OpenDoc("key").Int32("at", 1).Close().
				String("name", "at").Int32("expireAfterSeconds", 60).Close().Close().Finish())
			const stay, rounds, due = 7, 20, 200
			w.insertAt(0, stay, 1<<41)
			for round := range rounds {
				w.insertAt(100+round*due, due, int64(round)*1000)
				var removal sync.WaitGroup
				removed := make(chan struct{})
				removal.Go(func() {
					defer close(removed)
					if err := w.m.pass(t.Context()); err != nil {
						t.Error(err)
					}
				})
				for over := false; !over; {
					select {
					case <-removed:
						over = true
					default:
					}
					if n := w.must(new(bson.Builder).String("count", "c").Finish()).Lookup("n").Int32(); n != stay {
						t.Errorf("round %d: count is %d, not %d", round, n, stay)
					}
				}
				removal.Wait()
			}
		})
	}
}

// insertAt inserts documents with _ids from one on, all of one date.
func (w *world) insertAt(from, n int, date int64) {
	var b bson.Builder
	b.String("insert", "c").OpenArray("documents")
	for i := range n {
		b.OpenDoc(bson.Index(i)).Int("_id", int64(from+i)).Date("at", date).Close()
	}
	w.must(b.Close().Finish())
}
