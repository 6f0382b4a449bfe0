package expire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Where a rule archives, a visit removes its documents in batches: a batch is read, written as one
// object for each day, read back, and only then one unit adds the objects' rows to system.archive
// and removes the documents (docs/rfcs/0034-archive.md). The unit checks under the documents'
// locks that each is what was written (invariant archived-first).

const (
	// archiveDocs and archiveBytes bound a batch: its documents are in memory, and removed in one
	// unit. Its last document may be larger.
	archiveDocs  = 8192
	archiveBytes = 16 << 20
	// archiveDays bounds the objects of a batch.
	archiveDays = 16
	// archivePause and maxArchivePause are how long a rule waits after its store has failed, at
	// first and at most.
	archivePause    = time.Second
	maxArchivePause = 5 * time.Minute
)

// errArchiveChanged says that documents were changed after they were written to an object.
var errArchiveChanged = errors.New("documents were written while they were archived")

// storeError is an error of the store or of what is allowed, not of this server's data.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// ownError is an error of this server's data, not of the store.
type ownError struct{ error }

// archiveVisit is a running visit of a rule that archives.
type archiveVisit struct {
	deleteVisit
	m    *Monitor
	r    *removal
	to   *schema.Archive
	rows *catalog.Collection // system.archive
	size int                 // documents of the next batch
	docs []archived          // of the batch
}

// archived is a document of a batch.
type archived struct {
	key catalog.RecordKey
	archive.Document
	sum [sha256.Size]byte // of the document
}

// newArchive returns a visit of a rule that archives; nil while its store is not asked again.
func (d *documentRemover) newArchive(r *removal) *archiveVisit {
	if !r.k.mayArchive(time.Now()) {
		return nil
	}
	return &archiveVisit{deleteVisit: deleteVisit{d: d.BatchedDelete, c: d.c, atOnce: int64(d.m.archives.docs)}, m: d.m, r: r, to: d.Rule.Settings.Archive, size: d.m.archives.docs}
}

// archive is singly where the rule archives.
func (d *documentRemover) archive(ctx context.Context, r *removal) (Visited, error) {
	a := d.newArchive(r)
	if a == nil || d.later {
		return Visited{More: d.later}, nil
	}
	scan := d.m.o.Exec.ScanRule(d.c, d.Rule, d.Rule.RangesBetween(d.Since, d.Now), d.After)
	defer scan.Close()
	a.scan = scan
	more, err := a.run(ctx)
	if errors.Is(err, catalog.ErrNoPermit) {
		more, err = true, nil
	}
	more, err = a.tell(ctx, more, a.done.Docs, err)
	var place []byte
	if more {
		place = scan.Place()
	}
	return Visited{
		More: more, Place: place, Docs: a.done.Docs, Bytes: a.done.Bytes, KeysDeleted: a.done.KeysDeleted,
		KeysExamined: scan.Stats().KeysExamined, DocsExamined: a.fetch.DocsExamined,
		Stats: func() bson.Doc { return scan.Explain(&a.fetch, &a.write) },
	}, err
}

// tell says how a visit has ended, which removed so many documents: that the store is away, or back.
func (a *archiveVisit) tell(ctx context.Context, more bool, docs int64, err error) (bool, error) {
	if away := (storeError{}); errors.As(err, &away) {
		a.away(ctx, away.error)
		return false, nil
	}
	if err == nil && docs > 0 {
		a.back(ctx)
	} else if err == nil && !more {
		a.r.k.archiveBack() // nothing is kept by it any more
	}
	return more, err
}

// run archives and removes until nothing is left or a limit is reached.
func (a *archiveVisit) run(ctx context.Context) (more bool, err error) {
	begun := time.Now()
	a.started = begun
	for {
		ended, err := a.gather(ctx)
		if err != nil {
			return false, err
		}
		for len(a.group) > 0 {
			if err := a.archiveSome(ctx); err != nil {
				return false, err
			}
			if err := a.committed(); err != nil {
				return false, err
			}
		}
		if ended {
			return false, nil
		}
		if d := a.d; d.MaxDocs > 0 && a.write.Works >= d.MaxDocs || d.MaxBytes > 0 && a.done.Bytes >= d.MaxBytes || d.MaxTime > 0 && time.Since(begun) >= d.MaxTime {
			return true, nil
		}
	}
}

// archiveSome archives and removes the next documents of the group: all, but for those that another unit
// has locked, which the next visit finds.
func (a *archiveVisit) archiveSome(ctx context.Context) error {
	if err := a.m.archivers.enter(ctx, a.r.pass); err != nil {
		return err
	}
	defer a.m.archivers.leave()
	if err := a.findRows(ctx); err != nil {
		return err
	}
	if err := a.read(ctx); err != nil || len(a.docs) == 0 {
		return err
	}
	rows, err := a.store(ctx)
	if err == nil {
		err = a.d.Permit.Unit(func() error { return a.remove(ctx, rows) })
	}
	if err == nil {
		a.write.Works += int64(len(a.docs))
		a.size = min(2*a.size, a.m.archives.docs)
		a.stored(rows)
		return nil
	}
	a.batch, a.started = Batch{}, time.Now()
	if err := a.notStored(ctx, rows, err); !errors.Is(err, errArchiveChanged) {
		return err
	}
	if err := a.r.pass.enter(ctx); err != nil {
		return err
	}
	// They are read again, fewer at a time: one that is written all the time then keeps no others.
	if a.size = len(a.docs) / 2; a.size == 0 {
		a.size = a.m.archives.docs
		return nil // the next visit finds it
	}
	for _, d := range a.docs {
		a.group = append(a.group, d.key)
	}
	slices.SortFunc(a.group, func(x, y catalog.RecordKey) int { return bytes.Compare(x, y) })
	return nil
}

// stored notes that a unit has made rows of objects.
func (a *archiveVisit) stored(rows []archive.Row) {
	a.m.archives.end(rows)
	a.m.archives.count(rows)
}

// notStored gives up the objects of documents that were not removed, outside of the gate, where the visit
// is then, and returns why they were not: err.
func (a *archiveVisit) notStored(ctx context.Context, rows []archive.Row, err error) error {
	a.r.pass.leave() // nothing is asked of a store inside the gate
	if away := (storeError{}); errors.As(err, &away) {
		a.m.archives.end(rows) // it would be asked in vain: the collector does
		return err
	}
	changed := errors.Is(err, errArchiveChanged)
	gaveUp := a.m.giveUp(ctx, a.rows, rows, changed)
	if changed && gaveUp != nil {
		return gaveUp
	}
	return errors.Join(err, gaveUp)
}

// findRows finds the collection with the rows of the objects, and makes it if there is none.
func (a *archiveVisit) findRows(ctx context.Context) (err error) {
	ns := schema.Namespace{DB: a.c.Namespace.DB, Coll: schema.ArchiveCollection}
	for range 2 {
		if a.rows = a.m.o.Catalog.Lookup(ns); a.rows != nil {
			return nil
		}
		if a.rows, err = a.m.o.Catalog.Create(ctx, ns, nil); !mongoerr.Is(err, mongoerr.NamespaceExists) {
			return err
		}
	}
	return err
}

// read reads the documents of the next batch as they are. Those for which there is no room stay
// in the group.
func (a *archiveVisit) read(ctx context.Context) error {
	u := a.m.o.Catalog.Begin()
	defer u.Abort()
	a.docs = a.docs[:0]
	n, size, days := min(a.size, len(a.group)), 0, map[string]bool{}
	var stop catalog.RecordKey
	_, err := u.LockRecords(ctx, a.c, a.group[:n], func(k catalog.RecordKey, doc bson.Doc) error {
		if err := a.d.Permit.Check(a.c.Latest()); err != nil {
			return err
		}
		a.fetch.DocsExamined++
		due := a.d.Rule.Due(doc)
		if due > a.d.Now || u.OwnedElsewhere(a.c, doc) {
			a.fetch.Count(stage.NeedTime)
			return nil
		}
		date := due - 1000*a.d.Rule.Seconds
		days[archive.Day(date)] = true
		if size > 0 && size+len(doc) > archiveBytes || len(days) > archiveDays {
			stop = k
			return errBatchFull
		}
		size += len(doc)
		a.docs = append(a.docs, archived{key: bytes.Clone(k), Document: archive.Document{Date: date, Doc: doc.Clone()}, sum: sha256.Sum256(doc)})
		return nil
	})
	if errors.Is(err, errBatchFull) {
		n, _ = slices.BinarySearchFunc(a.group[:n], stop, func(x, y catalog.RecordKey) int { return bytes.Compare(x, y) })
		err = nil
	}
	a.group = a.group[n:]
	return err
}

// store writes the objects of a batch, one for each day, and stores them. It returns their rows.
func (a *archiveVisit) store(ctx context.Context) (rows []archive.Row, err error) {
	to, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	docs := make([]archive.Document, len(a.docs))
	for i := range a.docs {
		docs[i] = a.docs[i].Document
	}
	a.r.pass.leave() // who locks writes does not wait for the store
	objects, err := a.writeFiles(ctx, to, docs)
	if err != nil {
		return nil, err
	}
	if err := a.r.pass.enter(ctx); err != nil {
		go removeFiles(objects)
		return nil, err
	}
	return a.put(ctx, to, objects)
}

// open opens the store of the rule.
func (a *archiveVisit) open(ctx context.Context) (objectstore.Store, error) {
	if a.m.o.Shares != nil { // it was no shard when the rule was made
		return nil, storeError{mongoerr.New(mongoerr.InvalidOptions, "a shard does not archive: $archive could not read it")}
	}
	to, err := a.m.o.Archives.Open(ctx, a.to.To)
	if err != nil {
		return nil, storeError{err}
	}
	return to, nil
}

// put stores objects that were written to files, which it removes, and returns their rows. The visit is
// inside of the gate before and behind it, unless the error is that of the gate.
func (a *archiveVisit) put(ctx context.Context, to objectstore.Store, objects []*object) (rows []archive.Row, err error) {
	defer func() { go removeFiles(objects) }() // who stops the server does not wait for the store
	for _, o := range objects {
		rows = append(rows, o.row)
	}
	a.m.archives.begin(rows)
	if err := a.m.intend(ctx, a.rows, rows); err != nil {
		return rows, err
	}
	a.r.pass.leave()
	for _, o := range objects {
		if err = archive.Put(ctx, to, o.row.Path, o.file, o.row.Written); err != nil {
			err = storeError{err}
			break
		}
	}
	if refused := a.r.pass.enter(ctx); refused != nil {
		return rows, refused // and not the store's, behind which a visit would go on
	}
	return rows, err
}

// object is one that is written to a file.
type object struct {
	row  archive.Row
	file *os.File
}

func removeFiles(objects []*object) {
	for _, o := range objects {
		_ = o.file.Close()           // it was synced, or is not needed
		_ = os.Remove(o.file.Name()) // it may have its name in the archive
	}
}

// writeFiles is writeObjects, which may not answer: files of a directory are there.
func (a *archiveVisit) writeFiles(ctx context.Context, to objectstore.Store, docs []archive.Document) ([]*object, error) {
	var objects []*object // those of a call that is late are its own
	late := func() { removeFiles(objects) }
	err := archive.Ask(ctx, to, archiveBytes, func(ctx context.Context) (err error) {
		if objects, err = a.writeObjects(ctx, to, docs); err != nil {
			removeFiles(objects)
			objects = nil
		}
		return err
	}, late)
	if err != nil {
		if own := new(ownError); errors.As(err, own) {
			return nil, own.error
		}
		return nil, storeError{err}
	}
	return objects, nil
}

// writeObjects writes the objects of a batch to files.
func (a *archiveVisit) writeObjects(ctx context.Context, to objectstore.Store, docs []archive.Document) (objects []*object, err error) {
	days := map[string][]archive.Document{}
	for _, d := range docs {
		day := archive.Day(d.Date)
		days[day] = append(days[day], d)
	}
	owner, err := a.m.owner()
	if err != nil {
		return nil, ownError{err}
	}
	path := a.d.Rule.Index.Parts[0].Path
	for _, day := range slices.Sorted(maps.Keys(days)) {
		file, err := to.Temp(ctx)
		if err != nil {
			return objects, err
		}
		o := &object{file: file, row: archive.Row{
			Path: archive.Name(a.c.Namespace.String(), owner, day), To: a.to.To, Owner: owner, Namespace: a.c.Namespace.String(),
			Collection: a.c.UUID, Rule: a.d.Rule.Name(), Key: path, Gone: a.d.Now, Writing: true,
		}}
		objects = append(objects, o)
		h := archive.Header{Namespace: o.row.Namespace, Rule: o.row.Rule, ExpiredAt: a.d.Now, Fields: a.to.Fields}
		if o.row.Written, err = archive.Write(file, h, days[day]); err != nil {
			return objects, err
		}
		if err := o.row.Written.Check(file, days[day]); err != nil {
			return objects, ownError{err} // it is ours, and no fault of the store
		}
		for _, d := range days[day] {
			o.row.Arrays = o.row.Arrays || !a.d.Rule.HasOneDate(d.Doc)
		}
	}
	return objects, nil
}

// intend says in system.archive which objects are about to be stored, so that those of a server
// that dies are found, also behind a power cut: the objects are durable at once.
func (m *Monitor) intend(ctx context.Context, manifest *catalog.Collection, rows []archive.Row) error {
	return m.o.Catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		for i := range rows {
			if err := u.Insert(ctx, manifest, rows[i].Doc()); err != nil {
				return err
			}
		}
		return nil
	})
}

// remove removes the documents of a batch, and adds the rows of their objects, in one unit. It is
// the only code that makes a row of what was intended (invariant archived-once).
func (a *archiveVisit) remove(ctx context.Context, rows []archive.Row) error {
	keys := make([]catalog.RecordKey, len(a.docs))
	for i := range a.docs {
		keys[i] = a.docs[i].key
	}
	return a.m.o.Catalog.Run(ctx, storage.Buffered, func(u *catalog.Unit) error {
		a.batch = Batch{}
		u.Expires = a.d.Rule
		next := 0
		busy, err := u.LockRecords(ctx, a.c, keys, func(k catalog.RecordKey, doc bson.Doc) error {
			if err := a.d.Permit.Check(a.c.Latest()); err != nil {
				return err
			}
			d := &a.docs[next]
			if next++; !bytes.Equal(d.key, k) || d.sum != sha256.Sum256(doc) || a.d.Rule.Due(doc) > a.d.Now || u.OwnedElsewhere(a.c, doc) {
				return errArchiveChanged
			}
			if err := u.Delete(ctx, a.c, k, doc); err != nil {
				return err
			}
			a.batch.Docs++
			a.batch.Bytes += int64(len(doc))
			return nil
		})
		if err != nil {
			return err
		}
		if len(busy) > 0 || next != len(keys) {
			return errArchiveChanged
		}
		a.batch.KeysDeleted = u.KeysDeleted()
		for i := range rows {
			if err := enterRow(ctx, u, a.rows, rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// enterRow makes a row of one that was intended. One that was given up is none any more.
func enterRow(ctx context.Context, u *catalog.Unit, manifest *catalog.Collection, row archive.Row) error {
	key, old, err := u.LockID(ctx, manifest, bson.String(row.ID()))
	if err != nil {
		return err
	}
	if was, ok := archive.ParseRow(old); old == nil || !ok || !was.Writing || was.GivenUp {
		return errArchiveChanged
	}
	row.Writing = false
	return u.Update(ctx, manifest, key, old, row.Doc())
}

// away notes that the store has failed, and logs the first time.
func (a *archiveVisit) away(ctx context.Context, err error) {
	if first := a.r.k.archiveFailed(err, time.Now()); first {
		a.m.o.Log.LogAttrs(ctx, slog.LevelError, "Documents that are due cannot be archived, and stay", slog.String("c", "INDEX"), slog.Int("id", logArchiveAway),
			slog.String("namespace", a.c.Namespace.String()), slog.String("index", a.r.r.index), slog.String("to", a.to.To), slog.String("error", err.Error()))
	}
	a.m.archives.failures.Add(1)
}

// back notes that the store works, and logs where it did not.
func (a *archiveVisit) back(ctx context.Context) {
	if since := a.r.k.archiveBack(); !since.IsZero() {
		a.m.o.Log.LogAttrs(ctx, slog.LevelInfo, "Documents are archived again", slog.String("c", "INDEX"), slog.Int("id", logArchiveBack),
			slog.String("namespace", a.c.Namespace.String()), slog.String("index", a.r.r.index), slog.String("away", time.Since(since).String()))
	}
}
