package bench

import (
	"context"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/invariant"
)

// dataset is the documents of one system: those with the ids [0, documents)
// stay for the whole run, those above are inserted and deleted.
type dataset struct {
	documents int64
	next      atomic.Int64 // the first id that nothing has had
	victims   struct {     // for rows that consume documents
		next  atomic.Int64
		limit int64
	}
}

func newDataset(documents int64) *dataset {
	d := &dataset{documents: documents}
	d.next.Store(documents)
	return d
}

// fresh returns the first of n ids that no document has had.
func (d *dataset) fresh(n int64) int64 { return d.next.Add(n) - n }

// victim returns an id to remove. REQUIRES: one is left of what reserve made.
func (d *dataset) victim() int64 {
	id := d.victims.next.Add(1) - 1
	invariant.Check(id < d.victims.limit, "bench: a document to remove is left")
	return id
}

// reserve makes n documents for a row that consumes them.
func (d *dataset) reserve(ctx context.Context, s system, n int64) error {
	first := d.fresh(n)
	d.victims.next.Store(first)
	d.victims.limit = first + n
	return fill(ctx, s, first, n, never)
}

// exhausted reports whether one more operation of each client could use up the documents.
func (d *dataset) exhausted(clients int) bool {
	return d.victims.next.Load()+int64(clients) > d.victims.limit
}

// fill adds the documents [first, first+n), with as many clients as help.
func fill(ctx context.Context, s system, first, n, due int64) error {
	return parallel(fillClients, func(client int) error {
		w, err := s.worker(ctx)
		if err != nil {
			return err
		}
		defer w.close()
		for at := int64(client) * manyDocuments; at < n; at += fillClients * manyDocuments {
			if err := w.insertMany(ctx, first+at, int(min(manyDocuments, n-at)), due); err != nil {
				return err
			}
		}
		return nil
	})
}

// fillClients is how many clients fill a collection.
const fillClients = 2
