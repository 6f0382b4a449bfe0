package storage

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflydb/mayfly/internal/invariant"
)

// Writes that fill a range which nobody reads yet need not go through the journal and a
// memtable, and be written again by a flush and compactions: the log of the group has
// them, and as a table they go where they stay.

const (
	// ApartMin is the least number of bytes that are stored as a table: a smaller one costs
	// more, by the syncs of its file and of the manifest.
	ApartMin = 1 << 20
	// apartFile is the name of a table until it is the store's.
	apartFile = "apart.tmp"
	// categoryApart is that of its writes: where the disk is full, they fail.
	categoryApart vfs.DiskWriteCategory = "mayfly-apart"
)

// ApplyApart is Apply of a unit that has a place in the log of a group, where its writes of
// records in a range may be seen before the others, and without them: many of them are stored
// as a table. A crash between the two leaves the table alone, and Applied as it was: then the
// unit, and all behind it, are applied again. Nobody must see the range.
// REQUIRES: the unit is sealed, and has a place.
func (u *Unit) ApplyApart(at uint64, id Ident, lower, upper []byte) error {
	if err := invariant.Require(u.sealed && at > 0, "storage: what is applied apart is sealed and has a place in a log"); err != nil {
		return err
	}
	if err := u.join(); err != nil {
		return err
	}
	e := u.e
	repr := u.batch.Repr()
	r := runOf(repr, id, lower, upper)
	if r.to-r.from < ApartMin {
		return u.Apply(at)
	}
	e.apart.Lock()
	defer e.apart.Unlock()
	if err := e.ingest(repr[r.from:r.to]); err != nil {
		e.log.Errorf("a table for a range that is being filled: %v", mapError(err))
		return u.Apply(at) // the journal waits for space
	}
	e.views.commits.Add(1)
	e.idleCompactor.wrote(r.to - r.from)
	rest := make([]byte, 0, len(repr)-(r.to-r.from))
	rest = append(append(rest, repr[:r.from]...), repr[r.to:]...)
	h, _ := batchrepr.ReadHeader(repr)
	batchrepr.SetCount(rest, h.Count-uint32(r.count))
	whole := u.batch
	u.batch, u.indexed = e.db.NewBatch(), false
	if err := errors.Join(u.batch.SetRepr(rest), whole.Close()); err != nil {
		return mapError(err)
	}
	return u.Apply(at)
}

// Counted calls f with the keyspaces whose counters the unit changes, until it returns false.
func (u *Unit) Counted(f func(Ident) bool) {
	for i := range u.counters {
		if !f(u.counters[i].id) {
			return
		}
	}
}

// run are consecutive writes in the bytes of a batch.
type run struct{ from, to, count int }

// runOf finds the writes of a batch to a keyspace, if these are consecutive, store values under
// rising keys, and are in a range, and no range is deleted; else it is empty.
func runOf(repr []byte, id Ident, lower, upper []byte) (found run) {
	b, n := rangeBounds(nil, id, lower, upper)
	var last []byte
	for r := batchrepr.Read(repr); len(r) > 0; {
		from := len(repr) - len(r)
		kind, key, _, ok, err := r.Next()
		if !ok || err != nil || kind == pebble.InternalKeyKindRangeDelete {
			return run{}
		}
		if is, _, ok := cutIdent(key); !ok || is != id {
			continue
		}
		if kind != pebble.InternalKeyKindSet || bytes.Compare(key, b[:n]) < 0 || bytes.Compare(key, b[n:]) >= 0 || last != nil && bytes.Compare(last, key) >= 0 {
			return run{}
		}
		switch {
		case last == nil:
			found.from = from
		case found.to != from:
			return run{}
		}
		last, found.to, found.count = key, len(repr)-len(r), found.count+1
	}
	return found
}

// ingest makes a table of writes, which are durable when it returns. After an error, the
// store is unchanged.
func (e *Engine) ingest(writes []byte) error {
	name := e.fs.PathJoin(e.opts.Dir, apartFile)
	f, err := e.fs.Create(name, categoryApart)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), e.tables)
	for r := batchrepr.Reader(writes); len(r) > 0 && err == nil; {
		var key, value []byte
		if _, key, value, _, err = r.Next(); err == nil {
			err = w.Set(key, value)
		}
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = e.db.Ingest(context.Background(), []string{name})
	}
	if err != nil {
		_ = e.fs.Remove(name) // it may not be there, and nothing reads it
	}
	return err
}
