package catalog

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestRelayConcurrent lays a collection by windows and back, again and again, while
// writers update documents by their _id and by the record keys of older scans, and
// readers look for documents that are always there: in the latest state, with any
// descriptor, and in states of the store, by scans and by the index on _id.
func TestRelayConcurrent(t *testing.T) {
	const docs, turns = 600, 6
	c := open(t, storage.NewMemFS())
	if _, err := c.Create(t.Context(), relayNS, nil); err != nil {
		t.Fatal(err)
	}
	ttl := `{"v": 2, "key": {"at": 1}, "name": "at", "expireAfterSeconds": 60}`
	index := func() {
		if _, _, err := c.CreateIndexes(t.Context(), relayNS, []bson.Doc{parse(t, ttl)}); err != nil {
			t.Error(err)
		}
	}
	doc := func(id int, n int64) bson.Doc {
		return new(bson.Builder).Int32("_id", int32(id)).Date("at", 100_000+int64(id)*700).Int64("n", n).Finish()
	}
	insertDocs := func() error {
		return c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
			for id := range docs {
				if err := u.Insert(t.Context(), c.Lookup(relayNS), doc(id, 0)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := insertDocs(); err != nil {
		t.Fatal(err)
	}
	index()
	old := c.Lookup(relayNS)
	stop := ending{make(chan struct{})}
	var work sync.WaitGroup
	var sums [docs]int64
	for w := range 3 {
		work.Go(func() {
			for !stop.over() {
				id := rand.IntN(docs/3)*3 + w // each document has one writer
				err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
					record, was, err := u.LockID(t.Context(), c.Lookup(relayNS), bson.Int32(int32(id)))
					if err != nil || was == nil {
						return errors.Join(err, errStop)
					}
					return u.Update(t.Context(), c.Lookup(relayNS), record, was, doc(id, was.Lookup("n").Int64()+1))
				})
				if err != nil {
					t.Errorf("update of %d: %v", id, err)
					return
				}
				sums[id]++
			}
		})
	}
	for range 2 {
		work.Go(func() {
			for !stop.over() {
				coll := c.Lookup(relayNS)
				if rand.IntN(2) == 0 {
					coll = old
				}
				id := rand.IntN(docs)
				if _, found, closer, err := coll.FindID(nil, c.engine, bson.Int32(int32(id))); err != nil || found == nil {
					t.Errorf("FindID of %d: %s, %v", id, found, err)
					return
				} else {
					closer.Close()
				}
				turns := coll.Turns()
				s := c.engine.NewSnapshot()
				n, ids := 0, 0
				for _, r := range coll.Ranges(false) {
					n += countKeys(t, s.NewIter, coll.Ident, r.From, r.To)
				}
				it, err := coll.EntryIter(s, coll.indexes[0], nil, nil)
				if err != nil {
					t.Error(err)
				} else {
					for ok := it.First(); ok; ok = it.Next() {
						ids++
					}
					it.Close()
				}
				s.Close()
				if coll.CheckTurns(turns) != nil {
					continue // a query ends here
				}
				if n != docs || ids != docs {
					t.Errorf("a state has %d records and %d entries by _id", n, ids)
					return
				}
			}
		})
	}
	for turn := range turns {
		coll := c.Lookup(relayNS)
		var by *Rule
		if turn%2 == 0 {
			by = coll.RelayRule()
		} else if _, err := c.DropIndexes(t.Context(), relayNS, func(c *Collection) ([]*Index, error) { return []*Index{c.Index("at")}, nil }); err != nil {
			t.Fatal(err)
		}
		if err := c.BeginRelay(t.Context(), c.Lookup(relayNS), by, nil); err != nil {
			t.Fatal(err)
		}
		for from, end := RecordKey(nil), false; !end; {
			var err error
			o := Relay{From: from, Bytes: 2000, Did: func(RelayStep, time.Duration) error { return nil }}
			if from, end, err = c.RelayPart(t.Context(), c.Lookup(relayNS), o); err != nil {
				t.Fatal(err)
			}
		}
		if done, err := c.EndRelay(t.Context(), c.Lookup(relayNS), func(time.Duration) error { return nil }); err != nil || !done {
			t.Fatal(done, err)
		}
		if by == nil {
			index()
		}
	}
	stop.end()
	work.Wait()
	for id := range docs {
		_, found, closer, err := c.Lookup(relayNS).FindID(nil, c.engine, bson.Int32(int32(id)))
		if err != nil || found.Lookup("n").Int64() != sums[id] {
			t.Fatalf("%s has been written %d times, %v", found, sums[id], err)
		}
		closer.Close()
	}
	mustValidate(t, c, c.Lookup(relayNS))
}

// ending tells goroutines to end.
type ending struct{ c chan struct{} }

func (e ending) end() { close(e.c) }
func (e ending) over() bool {
	select {
	case <-e.c:
		return true
	default:
		return false
	}
}

func countKeys(t *testing.T, open func(storage.Ident, []byte, []byte) (*storage.Iter, error), id storage.Ident, from, to []byte) (n int) {
	it, err := open(id, from, to)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n
}
