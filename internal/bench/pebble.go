package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// raw is Pebble alone, in this process, with the keys that the server's
// documents and entries have, and the server's tuning. Its processor time is
// this process's.
//
// A commit reaches the operating system before it returns, as the server's
// does; one with j: true syncs the log once more, alone.
type raw struct {
	db      *pebble.DB
	fs      *systemFS
	due     bool
	padding string               // of documents
	locks   [rawLocks]sync.Mutex // documents, by id: an update reads and writes
}

const rawLocks = 1024

// systemFS passes on the syncs of log files only if they were requested.
type systemFS struct {
	vfs.FS
	mu  sync.Mutex
	log vfs.File // the newest
}

type systemFile struct{ vfs.File }

func (f systemFile) Sync() error     { return nil }
func (f systemFile) SyncData() error { return nil }

func (fs *systemFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	fs.mu.Lock()
	fs.log = f
	fs.mu.Unlock()
	return systemFile{f}, nil
}

func (fs *systemFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	return fs.wrap(name, f, err)
}

func (fs *systemFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(from, to, c)
	return fs.wrap(to, f, err)
}

// sync makes the log durable; callers that arrive together share nothing.
func (fs *systemFS) sync() error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.log.SyncData()
}

func openRaw(dir string, o *Options) (*raw, error) {
	cache := pebble.NewCache(int64(o.CacheGB * (1 << 30)))
	defer cache.Unref()
	r := &raw{fs: &systemFS{FS: vfs.Default}, padding: padding}
	po := &pebble.Options{
		Cache: cache, FS: r.fs, FormatMajorVersion: pebble.FormatNewest, MemTableSize: 64 << 20, MemTableStopWritesThreshold: 4,
		L0CompactionFileThreshold: 500, L0CompactionThreshold: 2, L0StopWritesThreshold: 1000, LBaseMaxBytes: 64 << 20, MaxOpenFiles: 4096,
		Logger: quiet{},
	}
	po.TargetFileSizes[0] = 4 << 20
	for i := range po.Levels {
		po.Levels[i].BlockSize, po.Levels[i].IndexBlockSize = 16<<10, 64<<10
		if i < len(po.Levels)-1 {
			po.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		}
	}
	var err error
	r.db, err = pebble.Open(filepath.Join(dir, "pebble"), po)
	return r, err
}

// quiet is a logger that says nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) { panic("pebble cannot continue") }

func (r *raw) close() error { return r.db.Close() }

func (r *raw) cpu() (time.Duration, error) { return ownCPU() }

func (r *raw) reset(_ context.Context, l layout) error {
	r.due, r.padding = l.Due, l.padding()
	return r.db.DeleteRange([]byte{spaceDocuments}, []byte{spaceByDue + 1}, pebble.Sync)
}

func (r *raw) worker(context.Context) (worker, error) { return &rawWorker{r: r}, nil }

type rawWorker struct {
	r        *raw
	key, end []byte // scratch
	buf      []byte
}

func (w *rawWorker) close() error { return nil }

func (w *rawWorker) commit(b *pebble.Batch, journaled bool) error {
	err := b.Commit(pebble.Sync)
	if err == nil && journaled {
		err = w.r.fs.sync()
	}
	return errors.Join(err, b.Close())
}

// entry is the value of an index entry.
var entry = []byte{numberKey}

func (w *rawWorker) put(b *pebble.Batch, id, due int64) error {
	w.key = documentKey(w.key[:0], id)
	if err := b.Set(w.key, document(id, due, w.r.padding), nil); err != nil {
		return err
	}
	w.key = entryKey(w.key[:0], spaceByKey, indexKey(id), id)
	if err := b.Set(w.key, entry, nil); err != nil {
		return err
	}
	if !w.r.due {
		return nil
	}
	w.key = entryKey(w.key[:0], spaceByDue, due, id)
	return b.Set(w.key, entry, nil)
}

func (w *rawWorker) insert(_ context.Context, id int64, journaled bool) error {
	b := w.r.db.NewBatch()
	w.key = documentKey(w.key[:0], id)
	if _, closer, err := w.r.db.Get(w.key); err == nil {
		return errors.Join(errWrong, closer.Close())
	}
	if err := w.put(b, id, never); err != nil {
		return err
	}
	return w.commit(b, journaled)
}

func (w *rawWorker) insertMany(_ context.Context, first int64, n int, due int64) error {
	b := w.r.db.NewBatch()
	for id := first; id < first+int64(n); id++ {
		w.key = documentKey(w.key[:0], id)
		if _, closer, err := w.r.db.Get(w.key); err == nil {
			return errors.Join(errWrong, closer.Close())
		}
		if err := w.put(b, id, due); err != nil {
			return err
		}
	}
	return w.commit(b, false)
}

// get copies a document, as an answer does.
func (w *rawWorker) get(id int64) error {
	w.key = documentKey(w.key[:0], id)
	v, closer, err := w.r.db.Get(w.key)
	if err != nil {
		return err
	}
	w.buf = append(w.buf, v...)
	return closer.Close()
}

func (w *rawWorker) find(_ context.Context, id int64) error {
	w.buf = w.buf[:0]
	return w.get(id)
}

func (w *rawWorker) findByKey(ctx context.Context, key int64) error { return w.scanByKey(ctx, key, 1) }

func (w *rawWorker) iterate(n int, each func(it *pebble.Iterator) error) error {
	it, err := w.r.db.NewIter(&pebble.IterOptions{LowerBound: w.key, UpperBound: w.end})
	if err != nil {
		return err
	}
	found := 0
	for ok := it.First(); ok && found < n; ok = it.Next() {
		if err := each(it); err != nil {
			return errors.Join(err, it.Close())
		}
		found++
	}
	if err := it.Close(); err != nil {
		return err
	}
	if found != n {
		return errWrong
	}
	return nil
}

func (w *rawWorker) scan(_ context.Context, id int64, n int) error {
	w.buf = w.buf[:0]
	w.key, w.end = documentKey(w.key[:0], id), documentKey(w.end[:0], id+int64(n))
	return w.iterate(n, func(it *pebble.Iterator) error {
		v, err := it.ValueAndErr()
		w.buf = append(w.buf, v...)
		return err
	})
}

func (w *rawWorker) scanByKey(_ context.Context, key int64, n int) error {
	w.buf = w.buf[:0]
	w.key, w.end = append(w.key[:0], entryBound(spaceByKey, key)...), append(w.end[:0], spaceByKey+1)
	return w.iterate(n, func(it *pebble.Iterator) error {
		return w.get(parseNumber(it.Key()[1+numberKey:]))
	})
}

// counterAt is where the value of field n is in a document.
const counterAt = 4 + (1 + 4 + 8) + (1 + 2 + 8) + (1 + 2)

func (w *rawWorker) increment(ctx context.Context, id int64, journaled bool) error {
	l := &w.r.locks[id%rawLocks]
	l.Lock()
	defer l.Unlock()
	if err := w.find(ctx, id); err != nil {
		return err
	}
	counter := w.buf[counterAt : counterAt+8]
	binary.LittleEndian.PutUint64(counter, binary.LittleEndian.Uint64(counter)+1)
	b := w.r.db.NewBatch()
	if err := b.Set(w.key, w.buf, nil); err != nil {
		return err
	}
	return w.commit(b, journaled)
}

// drop deletes a document that was read into buf, and its entries.
func (w *rawWorker) drop(b *pebble.Batch, id int64) error {
	const keyAt, dueAt = counterAt - (1 + 2) - 8, counterAt + 8 + (1 + 4)
	w.key = documentKey(w.key[:0], id)
	if err := b.DeleteSized(w.key, uint32(len(w.buf)), nil); err != nil {
		return err
	}
	w.key = entryKey(w.key[:0], spaceByKey, int64(binary.LittleEndian.Uint64(w.buf[keyAt:])), id)
	if err := b.DeleteSized(w.key, uint32(len(entry)), nil); err != nil {
		return err
	}
	if !w.r.due {
		return nil
	}
	w.key = entryKey(w.key[:0], spaceByDue, int64(binary.LittleEndian.Uint64(w.buf[dueAt:])), id)
	return b.DeleteSized(w.key, uint32(len(entry)), nil)
}

func (w *rawWorker) remove(ctx context.Context, id int64) error {
	if err := w.find(ctx, id); err != nil {
		return err
	}
	b := w.r.db.NewBatch()
	if err := w.drop(b, id); err != nil {
		return err
	}
	return w.commit(b, false)
}

// rawBatch is how many documents one batch of expire deletes.
const rawBatch = 1000

// expire walks the index on due and deletes each document and its entries.
func (r *raw) expire(ctx context.Context, total int64, progress func(int64)) error {
	w := &rawWorker{r: r}
	w.key, w.end = entryBound(spaceByDue, 0), entryBound(spaceByDue, time.Now().UnixMilli())
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: w.key, UpperBound: w.end})
	if err != nil {
		return err
	}
	defer it.Close()
	w = &rawWorker{r: r}
	gone := int64(0)
	b := r.db.NewBatch()
	for ok := it.First(); ok; ok = it.Next() {
		id := parseNumber(it.Key()[1+numberKey:])
		if err := w.find(ctx, id); err != nil {
			return err
		}
		if err := w.drop(b, id); err != nil {
			return err
		}
		if gone++; gone%rawBatch == 0 {
			if err := w.commit(b, false); err != nil {
				return err
			}
			b = r.db.NewBatch()
			progress(gone)
		}
	}
	if err := w.commit(b, false); err != nil {
		return err
	}
	progress(gone)
	if gone != total {
		return errWrong
	}
	return it.Error()
}

// rawIngest writes tables of n documents and of their entries by k, and has an empty Pebble
// take them in: the least that a shard does which gets them all.
func rawIngest(ctx context.Context, dir string, n int64) (took time.Duration, err error) {
	dir = filepath.Join(dir, "ingest")
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	byKey := make([]int64, n)
	for id := range byKey {
		byKey[id] = int64(id)
	}
	slices.SortFunc(byKey, func(a, b int64) int { return cmp.Compare(indexKey(a), indexKey(b)) })
	docs, entries := filepath.Join(dir, "documents.sst"), filepath.Join(dir, "entries.sst")
	began := time.Now()
	if err := writeTable(docs, func(set func(key, value []byte) error) error {
		var key []byte
		for id := range n {
			key = documentKey(key[:0], id)
			if err := set(key, document(id, never, mixedPadding(id, len(padding)))); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return 0, err
	}
	if err := writeTable(entries, func(set func(key, value []byte) error) error {
		var key []byte
		for _, id := range byKey {
			key = entryKey(key[:0], spaceByKey, indexKey(id), id)
			if err := set(key, entry); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return 0, err
	}
	err = db.Ingest(ctx, []string{docs, entries})
	return time.Since(began), err
}

// writeTable writes a table of what fill sets, in order.
func writeTable(path string, fill func(set func(key, value []byte) error) error) error {
	f, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{BlockSize: 16 << 10, TableFormat: pebble.FormatNewest.MaxTableFormat()})
	return errors.Join(fill(w.Set), w.Close())
}
