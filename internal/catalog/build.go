package catalog

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// A chunk of a build has at most this many documents or bytes: their records
	// are locked while it runs.
	buildChunkDocs  = 256
	buildChunkBytes = 1 << 20
	// buildDuplicatesMax bounds the keys noted as duplicates; beyond it the end of
	// the build scans the whole index.
	buildDuplicatesMax = 10000
	// buildDuplicatesBytes bounds their bytes.
	buildDuplicatesBytes = 4 << 20
	// buildUnitBytes bounds the entries of a chunk: those beyond it are written one
	// by one.
	buildUnitBytes = 4 << 20
	// buildWorkers is how many chunks are worked on at once: while the entries of one
	// are made and written, the records of the next are found and locked.
	buildWorkers = 2
)

// errDropped ends the build of an index that is dropped.
var errDropped = mongoerr.New(mongoerr.IndexBuildAborted, "Index build aborted: the index or its collection was dropped")

// errShutdown ends builds when the process stops.
var errShutdown = mongoerr.New(mongoerr.InterruptedAtShutdown, "interrupted at shutdown")

// build fills new indexes of a collection while it is written to.
//
// From the moment the descriptor with the new indexes is published, every
// writer maintains them (invariant latest). The build walks the records in
// chunks, two at once; it locks the records of a chunk and reads them again under their
// locks. So the entries of each document's current version were written by the
// build, by a writer, or by both: a document that is older than the publication
// is met by the build, or was written since; one that is newer had its entries
// written by its writer. Both write the same bytes, so writing an entry twice
// does no harm.
//
// Both note duplicates in a unique index; they fail the build at its end if they still
// exist.
type build struct {
	c       *Catalog
	id      UUID
	live    *live
	indexes []*Index
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{}
	built   func(context.Context, UUID) error // see CreateIndexesWhen

	docs, total atomic.Int64
	memory      memory.Account
	duplicates  struct {
		sync.Mutex
		keys     map[*Index]map[string]bool
		n, bytes int
		overflow bool
	}
}

// builds are the running builds.
type builds struct {
	sync.Mutex
	all    []*build
	closed bool
	wait   sync.WaitGroup
}

func (bs *builds) add(b *build) {
	bs.Lock()
	defer bs.Unlock()
	bs.all = append(bs.all, b)
	bs.wait.Add(1)
	if bs.closed {
		b.abort(errShutdown)
	}
}

func (bs *builds) remove(b *build) {
	bs.Lock()
	defer bs.Unlock()
	bs.all = slices.DeleteFunc(bs.all, func(o *build) bool { return o == b })
	bs.wait.Done()
}

func (bs *builds) close() {
	bs.Lock()
	bs.closed = true
	for _, b := range bs.all {
		b.abort(errShutdown)
	}
	bs.Unlock()
	bs.wait.Wait()
}

// BuildProgress is the state of an index build, for currentOp.
type BuildProgress struct {
	ID         UUID
	Namespace  schema.Namespace
	Collection UUID
	Indexes    []*Index
	// Docs of Total documents are done; Total is the number at the start.
	Docs, Total int64
}

// Builds returns the running index builds.
func (c *Catalog) Builds() []BuildProgress {
	c.builds.Lock()
	defer c.builds.Unlock()
	var all []BuildProgress
	for _, b := range c.builds.all {
		coll := b.live.current.Load()
		all = append(all, BuildProgress{b.id, coll.Namespace, coll.UUID, b.indexes, b.docs.Load(), b.total.Load()})
	}
	return all
}

// AbortBuild ends a build with cause, which its CreateIndexes returns; false
// if there is no such build.
func (c *Catalog) AbortBuild(id UUID, cause error) bool {
	c.builds.Lock()
	defer c.builds.Unlock()
	for _, b := range c.builds.all {
		if b.id == id {
			b.abort(cause)
			return true
		}
	}
	return false
}

func newBuild(ctx context.Context, c *Catalog, coll *Collection) *build {
	b := &build{c: c, id: bson.NewUUID(), live: coll.live, done: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.total.Store(coll.Count())
	b.memory.Open(c.memory)
	b.duplicates.keys = map[*Index]map[string]bool{}
	return b
}

// Context bounds how long the build may wait for memory.
func (b *build) Context() context.Context { return b.ctx }

// isRunning reports whether there is a build that has not ended.
func (b *build) isRunning() bool {
	if b == nil {
		return false
	}
	select {
	case <-b.done:
		return false
	default:
		return true
	}
}

// abort ends the build with a cause; only the first cause counts.
func (b *build) abort(cause error) { b.cancel(cause) }

// noteDuplicate notes a key that more than one document may have.
func (b *build) noteDuplicate(ix *Index, key []byte) {
	d := &b.duplicates
	d.Lock()
	defer d.Unlock()
	ks := d.keys[ix]
	if ks == nil {
		ks = map[string]bool{}
		d.keys[ix] = ks
	}
	if !ks[string(key)] {
		if d.n == buildDuplicatesMax || d.bytes+len(key) > buildDuplicatesBytes {
			d.overflow = true
			return
		}
		d.n++
		d.bytes += len(key)
		ks[string(key)] = true
	}
}

// run runs the build, and removes the indexes if it fails.
func (b *build) run() error { return b.end(b.scan()) }

// end publishes the indexes after the scan, or removes them.
func (b *build) end(err error) error {
	defer b.c.builds.remove(b)
	defer close(b.done)
	defer b.cancel(nil)
	defer b.memory.Close()
	if err == nil && b.built != nil {
		err = b.built(b.ctx, b.id)
	}
	if err == nil {
		err = b.c.change(b.ctx, only(b.live), b.finish)
	}
	if err == nil {
		return nil
	}
	// The cleanup must not end when the client gives up.
	ctx := context.WithoutCancel(b.ctx)
	if err := b.c.change(ctx, only(b.live), b.undo); err != nil {
		b.c.log.Error("the failed index build could not be removed; the next start will remove it", "error", err)
	}
	return buildFailed(b.id, b.live.current.Load(), err)
}

// buildFailed is the error of createIndexes if the build with that id has failed.
func buildFailed(id UUID, coll *Collection, err error) error {
	return mongoerr.Prefix(err, "Index build failed: "+id.String()+": Collection "+coll.Namespace.String()+" ( "+coll.UUID.String()+" )")
}

func (b *build) scan() error {
	if !slices.ContainsFunc(b.indexes, func(ix *Index) bool { return ix.hasEntries() || ix.OnPlace != nil }) {
		return nil
	}
	places := make(chan RecordKey, 1) // where the next chunk starts; closed at the end
	places <- nil
	var workers errgroup.Group
	for range buildWorkers {
		workers.Go(func() error {
			for from := range places {
				if err := b.chunk(from, places); err != nil {
					b.abort(err) // ends the others
					return err
				}
			}
			return nil
		})
	}
	return workers.Wait()
}

// writer starts a unit that is inside the collection's gate, with the newest
// descriptor, and checks that it still has the indexes.
func (b *build) writer() (*Unit, *Collection, error) {
	if b.ctx.Err() != nil {
		return nil, nil, context.Cause(b.ctx)
	}
	u := b.c.Begin()
	u.Memory = b.memory.Hold(b)
	coll, err := u.enter(b.ctx, b.live.current.Load())
	if err == nil && (b.live.dropped.Load() || b.indexes[0].live.dropped.Load()) {
		err = errDropped
	}
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		err = errDropped
		if !b.live.dropped.Load() { // renamed between the two lookups
			u.Abort()
			return b.writer()
		}
	}
	if err != nil {
		u.Abort()
		return nil, nil, err
	}
	return u, coll, nil
}

// chunk adds the entries of the next records from a key on. Once it knows them, it
// sends where the next chunk starts to places, or closes that at the end.
func (b *build) chunk(from RecordKey, places chan<- RecordKey) error {
	u, coll, err := b.writer()
	if err != nil {
		close(places)
		return err
	}
	defer u.Memory.Release()
	defer u.Abort()
	locked, busy, next, err := b.lockChunk(u, coll, from)
	if err != nil || next == nil {
		close(places)
	} else {
		places <- next
	}
	if err != nil {
		return err
	}
	done := len(locked)
	if len(locked) > 0 {
		late, err := b.enterLocked(u, coll, locked)
		if err != nil {
			return err
		}
		busy = append(busy, late...)
		done -= len(late)
	}
	if err := u.Commit(b.ctx, storage.Buffered); err != nil {
		return err
	}
	for _, k := range busy {
		if err := b.enterOne(k); err != nil {
			return err
		}
	}
	b.docs.Add(int64(done))
	return nil
}

// lockChunk locks those of the next records that are not locked; busy are the
// others.
func (b *build) lockChunk(u *Unit, coll *Collection, from RecordKey) (locked, busy []RecordKey, next RecordKey, err error) {
	it, err := b.c.engine.NewIter(coll.Ident, from, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	defer it.Close()
	size := 0
	for ok := it.First(); ok; ok = it.Next() {
		k := RecordKey(bytes.Clone(it.Key()))
		if len(locked)+len(busy) >= buildChunkDocs || size >= buildChunkBytes {
			return locked, busy, k, nil
		}
		v, err := it.Value()
		if err != nil {
			return nil, nil, nil, err
		}
		size += len(v)
		if u.tryRecord(coll, k) {
			locked = append(locked, k)
		} else {
			busy = append(busy, k)
		}
	}
	return locked, busy, nil, it.Err()
}

// enterLocked writes the entries of the current versions of locked records; late are
// those that would have to wait, or are too large for the unit.
func (b *build) enterLocked(u *Unit, coll *Collection, locked []RecordKey) (late []RecordKey, err error) {
	it, err := b.c.engine.NewIter(coll.Ident, locked[0], nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	ok := it.First()
	for _, k := range locked {
		for ok && bytes.Compare(it.Key(), k) < 0 {
			ok = it.Next()
		}
		if !ok || !bytes.Equal(it.Key(), k) {
			continue // deleted in the meantime
		}
		if u.Size() >= buildUnitBytes {
			late = append(late, k)
			continue
		}
		doc, err := it.Value()
		if err != nil {
			return nil, err
		}
		switch err := b.enter(u, coll, k, doc); {
		case errors.Is(err, storage.ErrLockBusy):
			late = append(late, k)
		case err != nil:
			return nil, err
		}
	}
	return late, it.Err()
}

// enterOne writes the entries of one record, waiting for its locks, also for those of
// transactions.
func (b *build) enterOne(k RecordKey) error {
	for {
		err := b.tryOne(k)
		if !errors.Is(err, storage.ErrLockBusy) {
			return err
		}
		if err := storage.WaitBusy(b.ctx, err); err != nil {
			return err
		}
	}
}

// tryOne is enterOne that does not wait for a transaction's lock: ErrLockBusy.
func (b *build) tryOne(k RecordKey) error {
	u, coll, err := b.writer()
	if err != nil {
		return err
	}
	defer u.Memory.Release()
	defer u.Abort()
	doc, err := u.LockRecord(b.ctx, coll, k)
	if err != nil {
		return err
	}
	if doc != nil {
		if err := b.enter(u, coll, u.resolve(k), doc); err != nil {
			return err
		}
	}
	b.docs.Add(1)
	return u.Commit(b.ctx, storage.Buffered)
}

// enter writes the entries of one locked document in the new indexes.
func (b *build) enter(u *Unit, coll *Collection, k RecordKey, doc bson.Doc) error {
	u.record = append(u.record[:0], k...)
	u.plan, u.keyRoom = u.plan[:0], 0
	for i, ix := range b.indexes {
		if err := u.planKeys(coll, ix, doc, slot(&u.keys, i)); err != nil {
			return err
		}
	}
	if err := u.checkUnique(b.ctx, coll); err != nil {
		return err
	}
	return u.finish(coll, 0, 0, 0)
}

// finish makes the indexes ready, unless there are duplicates. The gate is
// closed, so what it finds is final.
func (b *build) finish(t *change) error {
	coll := b.live.current.Load()
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	if b.live.dropped.Load() || b.indexes[0].live.dropped.Load() {
		return errDropped
	}
	for _, ix := range b.indexes {
		if err := b.checkDuplicates(coll, ix); err != nil {
			return err
		}
	}
	t.recordBuild(coll, "commitIndexBuild", b)
	return t.store(coll.with(func(n *Collection) {
		n.indexes = slices.Clone(coll.indexes)
		for i, ix := range n.indexes {
			if ix.live.build == b {
				k := *ix
				k.Ready = true
				n.indexes[i] = &k
			}
		}
	}))
}

// undo removes the unfinished indexes.
func (b *build) undo(t *change) error {
	coll := b.live.current.Load()
	if b.live.dropped.Load() {
		return nil
	}
	var mine []*Index
	for _, ix := range coll.indexes {
		if ix.live.build == b && !ix.Ready {
			mine = append(mine, ix)
		}
	}
	if len(mine) > 0 {
		t.recordBuild(coll, "abortIndexBuild", b)
	}
	return t.dropIndexes(coll, mine)
}

// checkDuplicates returns 11000 if a noted key still has two documents.
func (b *build) checkDuplicates(coll *Collection, ix *Index) error {
	if !ix.Unique {
		return nil
	}
	if b.duplicates.overflow {
		dups, err := b.c.Duplicates(coll, ix, 1)
		if err != nil || len(dups) == 0 {
			return err
		}
		return duplicate(coll, ix, dups[0].Key)
	}
	for k := range b.duplicates.keys[ix] {
		it, err := coll.EntryIter(b.c.engine, ix, []byte(k), nil)
		if err != nil {
			return err
		}
		two, key, err := twoEntries(coll, ix, it, []byte(k))
		if err := it.Close(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		if two {
			return duplicate(coll, ix, key)
		}
	}
	return nil
}

// twoEntries reports whether at least two entries have the key, and returns it
// with the type bits of the second.
func twoEntries(c *Collection, ix *Index, it *storage.Iter, k []byte) (bool, schema.Key, error) {
	n := 0
	for ok := it.First(); ok && bytes.HasPrefix(it.Key(), k); ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return false, schema.Key{}, err
		}
		_, record, bits, _ := c.SplitEntry(nil, ix, it, v)
		if c.dead(record) {
			continue
		}
		if n++; n == 2 {
			return true, schema.Key{Bytes: k, TypeBits: bytes.Clone(bits)}, nil
		}
	}
	return false, schema.Key{}, it.Err()
}

// Duplicate is a key that several documents have in an index.
type Duplicate struct {
	Key     schema.Key
	Records []RecordKey
}

// Duplicates finds keys of an index that several documents have, at most limit of them.
// The result is final within Modify, where no unit writes.
func (c *Catalog) Duplicates(coll *Collection, ix *Index, limit int) ([]Duplicate, error) {
	if ix.Records {
		return nil, nil
	}
	it, err := coll.EntryIter(c.engine, ix, nil, nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	var found []Duplicate
	var last Duplicate
	flush := func() {
		if len(last.Records) > 1 {
			found = append(found, last)
		}
		last = Duplicate{}
	}
	for ok := it.First(); ok && len(found) < limit; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		key, record, bits, _ := coll.SplitEntry(nil, ix, it, v)
		if coll.dead(record) {
			continue
		}
		if !bytes.Equal(key, last.Key.Bytes) {
			flush()
			last.Key = schema.Key{Bytes: bytes.Clone(key), TypeBits: bytes.Clone(bits)}
		}
		last.Records = append(last.Records, bytes.Clone(record))
	}
	flush()
	if len(found) > limit {
		found = found[:limit]
	}
	return found, it.Err()
}
