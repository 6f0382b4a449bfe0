package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// A unit of a repair has at most so many documents or bytes.
	repairUnitDocs  = 500
	repairUnitBytes = 4 << 20
	// repairCacheBytes is the block cache of the new store.
	repairCacheBytes = 256 << 20
	// repairing is the suffix of the new directory's name until it is complete.
	repairing = ".repairing"
	// lostAndFound is the prefix of the names of collections, in the database local,
	// that a repair creates for documents that cannot be in their own.
	lostAndFound = "lost_and_found."
)

// Repaired is what a repair has salvaged, and what it could not.
type Repaired struct {
	Damages []storage.Damage
	// Unlisted says that the list of the store's tables was incomplete.
	Unlisted    bool
	Collections []*RepairedCollection // by name, without views
	Notes       []string              // notes that are about no collection, or may be about any
}

// Lossless says that everything was salvaged, as far as can be known.
func (r *Repaired) Lossless() bool {
	return !r.Unlisted && len(r.Notes) == 0 && !slices.ContainsFunc(r.Collections, func(c *RepairedCollection) bool { return !c.lossless() })
}

// RepairedCollection is what a repair has salvaged of a collection. The documents of a
// time-series collection are its measurements.
type RepairedCollection struct {
	Namespace schema.Namespace
	Buckets   bool  // it is a time-series collection: Gaps are between buckets
	Documents int64 // recovered
	Counted   int64 // how many there were, or -1 if that is not known
	Invalid   int64 // records that were read, but are not valid documents
	// Duplicates is how many were put into DuplicatesIn, because others have their keys.
	Duplicates   int64
	DuplicatesIn schema.Namespace
	Gaps         []Gap
	// Behind is how many writes of documents could be read after the damage in a log;
	// they are not recovered.
	Behind int64
}

func (c *RepairedCollection) lossless() bool {
	return c.Counted == c.Documents && c.Invalid+c.Duplicates+c.Behind == 0 && len(c.Gaps) == 0
}

// Gap is a place in the order of a collection where documents could not be read.
type Gap struct {
	Damage storage.Damage
	// After and Before are the _id of the documents before and after it, in stored order;
	// "" at the ends of the collection.
	After, Before string
	// Open says that they are measurements that were in no bucket yet.
	Open bool
	// Older says that documents there may be older versions, or be back after they
	// were deleted.
	Older bool
}

// Repair makes a new data directory, into, from everything that can be read of another
// one, which no process has open. It does not change that one; fs is nil for the
// operating system's. Collections keep their names, UUIDs, options and indexes, which
// are rebuilt. Errors: code 98 if a server has the directory open, and those of the
// file system and of ctx; then there is no new directory.
func Repair(ctx context.Context, fs storage.FS, dir, into string, progress Progress) (*Repaired, error) {
	fs = storage.FileSystem(fs)
	if names, err := fs.List(into); err == nil && len(names) > 0 {
		return nil, fmt.Errorf("%s is not empty", into)
	}
	dir, err := storage.Place(fs, dir)
	if err != nil {
		return nil, err
	}
	x, err := storage.Examine(ctx, fs, dir, func(done, total int64) { progress("tables", done, total) })
	if err != nil {
		return nil, err
	}
	if x.Newer {
		return nil, errors.Join(fmt.Errorf("%s was written by a newer version, or its file mayfly.format is damaged. If it was not, copy the directory, remove mayfly.format from the copy, and repair the copy", dir), x.Close())
	}
	r := &repair{ctx: ctx, x: x, progress: progress, found: &Repaired{Damages: x.Damages, Unlisted: x.Unlisted},
		counted: map[storage.Ident]int64{}, low: map[storage.Ident]Gone{}, next: map[storage.IdentRange]storage.Ident{}}
	partial := strings.TrimRight(into, "/") + repairing
	if err := errors.Join(fs.RemoveAll(partial), storage.CopyKeys(fs, partial), r.run(fs, partial), x.Close()); err != nil {
		return nil, errors.Join(err, fs.RemoveAll(partial))
	}
	r.report()
	return r.found, fs.Rename(partial, into)
}

// repair is a running Repair.
type repair struct {
	ctx      context.Context
	x        *storage.Examination
	progress Progress
	found    *Repaired

	// The content of the keyspaces before those of collections.
	stored  []*Collection
	counted map[storage.Ident]int64
	low     map[storage.Ident]Gone
	params  []storedKey
	member  bool // of a replicated group
	next    map[storage.IdentRange]storage.Ident

	c       *Catalog // of the new store; nil until the first collection is read
	records map[storage.Ident]*restoring
	open    map[storage.Ident]*restoring
	indexes map[storage.Ident]bool
	orphans bool  // entries of the catalog are lost
	known   int   // losses, before the keys were read
	keys    int64 // read so far
	done    int64 // documents recovered, of about so many in total
	total   int64

	unit *Unit
	size int
}

type storedKey struct{ key, value []byte }

// restoring is a collection that is being written to the new store.
type restoring struct {
	*RepairedCollection
	coll *Collection
	low  Gone
	gaps []*pendingGap
	last string               // _id of the last document
	open measurements.Salvage // of a time-series collection
}

func (r *repair) run(fs storage.FS, dir string) error {
	e, err := storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: repairCacheBytes})
	if err != nil {
		return err
	}
	err = r.x.Each(r.ctx, func(id storage.Ident, key, value []byte) error {
		if id < storage.FirstIdent {
			return r.front(id, key, value)
		}
		if err := r.begin(e); err != nil {
			return err
		}
		return r.take(id, key, value)
	})
	if err == nil {
		err = r.begin(e) // if there are no documents
	}
	if err == nil {
		err = r.finishStaged()
	}
	if err == nil {
		err = r.commit()
	}
	if r.unit != nil {
		r.unit.Abort()
	}
	if r.c != nil {
		err = errors.Join(err, r.c.Close())
	}
	return errors.Join(err, e.Close())
}

// front takes a key of the keyspaces before those of collections.
func (r *repair) front(id storage.Ident, key, value []byte) error {
	switch id {
	case storage.IdentMeta:
		if of, next, ok := storage.ParseNextIdent(key, value); ok {
			r.skip(of, next)
		}
	case storage.IdentCounters:
		var sums [2]int64
		if of, err := storage.ParseIdent(key); err == nil && storage.Sums(value, sums[:]) == nil {
			r.counted[of] = sums[sumDocs]
		}
	case storage.IdentCatalog:
		of, err := storage.ParseIdent(key)
		var coll *Collection
		if err == nil {
			coll, err = decode(of, bson.Doc(value).Clone())
		}
		if err != nil {
			r.note("a catalog entry cannot be read, so its collection is left out: %v", err)
			return nil
		}
		r.stored = append(r.stored, coll)
	case storage.IdentWindows:
		if of, err := storage.ParseIdent(key); err == nil {
			if s, ok := layout.DecodeState(value); ok {
				r.low[of] = s.Gone()
			}
		}
	case storage.IdentRaft:
		r.member = true
	case storage.IdentParams:
		r.params = append(r.params, storedKey{slices.Clone(key), slices.Clone(value)})
	}
	return nil
}

// skip makes a range hand out idents from next on.
func (r *repair) skip(of storage.IdentRange, next storage.Ident) {
	r.next[of] = max(r.next[of], next)
}

// taken reserves idents, so that they are not handed out again.
func (r *repair) taken(ids ...storage.Ident) {
	for _, id := range ids {
		of := storage.CommonIdents
		if id >= storage.FirstOwnIdent {
			of = storage.OwnIdents
		}
		r.skip(of, id+1)
	}
}

func (r *repair) note(format string, args ...any) {
	r.found.Notes = append(r.found.Notes, fmt.Sprintf(format, args...))
}

// begin creates the collections, once all keyspaces before theirs have been
// read.
func (r *repair) begin(e *storage.Engine) error {
	if r.c != nil {
		return nil
	}
	r.records, r.open, r.indexes = map[storage.Ident]*restoring{}, map[storage.Ident]*restoring{}, map[storage.Ident]bool{}
	r.known = len(r.x.Losses)
	r.orphans = slices.ContainsFunc(r.x.Losses, func(l storage.Loss) bool { return touchesKeyspace(l, storage.IdentCatalog) })
	if err := r.describe(e); err != nil {
		return err
	}
	var err error
	if r.c, err = Open(e, Options{}); err != nil {
		return err
	}
	for _, old := range r.stored {
		coll := r.c.Lookup(old.Namespace)
		for _, ix := range old.indexes {
			r.indexes[ix.Ident] = ix.Ident != old.Ident
		}
		if coll == nil || coll.Ident == 0 {
			continue // a view, or a temporary collection
		}
		t := &restoring{RepairedCollection: &RepairedCollection{Namespace: old.Namespace, Buckets: old.Open != 0, Counted: r.count(old)}, coll: coll, low: r.low[old.Ident]}
		r.records[old.Ident] = t
		if old.Open != 0 {
			r.open[old.Open] = t
		}
		r.total += max(0, t.Counted)
		t.findGaps(r.x.Losses)
		r.found.Collections = append(r.found.Collections, t.RepairedCollection)
	}
	return nil
}

// count returns how many documents a collection had, or -1.
func (r *repair) count(c *Collection) int64 {
	id := c.Ident
	if c.Open != 0 {
		id = c.Open
	}
	n, known := r.counted[id]
	lost := slices.ContainsFunc(r.x.Losses, func(l storage.Loss) bool { return touchesKeyspace(l, storage.IdentCounters) })
	switch {
	case r.x.Unlisted || lost:
		return -1
	case !known:
		return 0
	}
	return n
}

// describe stores the catalog's entries. Of two with the same name, the newer keeps
// it.
func (r *repair) describe(e *storage.Engine) error {
	byName := map[schema.Namespace]int{}
	for i, c := range r.stored {
		r.taken(c.id, c.Ident, c.Open)
		for _, ix := range c.indexes {
			r.taken(ix.Ident)
		}
		if j, taken := byName[c.Namespace]; taken {
			older := r.stored[j]
			r.stored[j] = older.with(func(n *Collection) { n.Namespace = lostCollection(older.UUID.String()) })
			r.note("two collections had the name %s; the older one is now %s", c.Namespace, r.stored[j].Namespace)
		}
		byName[c.Namespace] = i
	}
	u := e.Begin()
	defer u.Abort()
	for of, next := range r.next {
		u.SkipIdents(of, next)
	}
	for _, c := range r.stored {
		if err := u.Set(storage.IdentCatalog, identKey(c.id), c.encode()); err != nil {
			return err
		}
	}
	for _, p := range r.params {
		if err := u.Set(storage.IdentParams, p.key, p.value); err != nil {
			return err
		}
	}
	return u.Commit(r.ctx, storage.Journaled)
}

// lostCollection returns the namespace for documents that cannot be in their own.
func lostCollection(name string) schema.Namespace {
	return schema.Namespace{DB: "local", Coll: lostAndFound + name}
}

// take takes a key of a collection or of an index.
func (r *repair) take(id storage.Ident, key, value []byte) error {
	if r.keys++; r.keys%validateCheckDocs == 0 {
		r.progress("documents", r.done, r.total)
	}
	if t := r.records[id]; t != nil {
		return r.document(t, key, value)
	}
	if t := r.open[id]; t != nil {
		return r.openRecord(t, key, value)
	}
	if r.orphans && !r.indexes[id] {
		return r.orphan(id, value)
	}
	return nil
}

// document recovers a document or a bucket.
func (r *repair) document(t *restoring, key RecordKey, doc bson.Doc) error {
	if t.coll.sections != nil && t.low.Dead(key) {
		return nil // it had expired
	}
	if err := bson.Validate(doc, maxStoredDepth); err != nil {
		t.Invalid++
		return nil
	}
	t.pass(key, doc)
	err := r.write(len(doc), func(u *Unit) error {
		n, err := u.restore(r.ctx, t.coll, doc.Clone())
		if err == nil {
			t.Documents += n
			r.done += n
		}
		return err
	})
	switch {
	case mongoerr.Is(err, mongoerr.DuplicateKey):
		t.DuplicatesIn = lostCollection(t.coll.UUID.String())
		t.Duplicates++
		return r.storeApart(t.DuplicatesIn, doc)
	case err == nil, r.ctx.Err() != nil, mongoerr.Is(err, mongoerr.OutOfDiskSpace):
		return err
	}
	t.Invalid++ // a stored document can be stored again, unless it is not a bucket
	return nil
}

// write adds to the unit.
func (r *repair) write(size int, f func(*Unit) error) error {
	if r.unit == nil {
		r.unit = r.c.Begin()
	}
	err := f(r.unit)
	if errors.Is(err, storage.ErrLockBusy) { // a collection that other units cannot write
		if err = r.commit(); err != nil {
			return err
		}
		r.unit = r.c.Begin()
		err = f(r.unit)
	}
	if err != nil {
		return err
	}
	if r.size += size; r.unit.Count() >= repairUnitDocs || r.size >= repairUnitBytes {
		return r.commit()
	}
	return nil
}

func (r *repair) commit() error {
	if r.unit == nil {
		return nil
	}
	u := r.unit
	r.unit, r.size = nil, 0
	return u.Commit(r.ctx, storage.Buffered)
}

// storeApart stores a document in a collection for those that cannot be in their
// own.
func (r *repair) storeApart(ns schema.Namespace, doc bson.Doc) error {
	if err := r.commit(); err != nil {
		return err
	}
	coll := r.c.Lookup(ns)
	if coll == nil {
		var err error
		if coll, err = r.c.Create(r.ctx, ns, nil); err != nil {
			return err
		}
	}
	err := r.write(len(doc), func(u *Unit) error {
		_, err := u.restore(r.ctx, coll, doc.Clone())
		return err
	})
	if mongoerr.Is(err, mongoerr.DuplicateKey) {
		r.note("a document with _id %s is left out, because %s already has one with that _id", doc.Lookup("_id"), ns)
		return nil
	}
	return err
}

// orphan recovers a document whose collection is not known.
func (r *repair) orphan(id storage.Ident, doc bson.Doc) error {
	if bson.Validate(doc, maxStoredDepth) != nil || doc.Lookup("_id").IsMissing() {
		return nil
	}
	ns := lostCollection(fmt.Sprintf("keyspace_%d", id))
	if r.c.Lookup(ns) == nil {
		r.note("a collection is missing from the catalog: its name, options and indexes are lost; its documents are in %s", ns)
	}
	return r.storeApart(ns, doc)
}
