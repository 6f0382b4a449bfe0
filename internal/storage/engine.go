package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	memtableBytes      = 64 << 20
	memtableBytesMin   = 1 << 20
	memtableDiskShare  = 32 // a memtable is at most this share of the disk
	memtablesMax       = 4  // writers wait while so many are full
	bloomBitsPerKey    = 10
	blockBytes         = 16 << 10
	indexBlockBytes    = 64 << 10
	levelBaseBytes     = 64 << 20
	targetFileBytes    = 4 << 20 // on the first level; doubles per level
	l0CompactionFiles  = 500
	l0CompactionDepth  = 2
	l0StopDepth        = 1000
	openTablesMax      = 4096
	rangeDeleteFlush   = 2 * time.Second // after which a dropped range's space starts to return
	slowDiskThreshold  = 5 * time.Second
	numLevelsWithBloom = 6 // not on the last level, where most lookups end
)

// Options configures an engine. The zero value of a field is its default.
type Options struct {
	Dir             string
	FS              FS            // nil: the operating system's
	CacheBytes      int64         // block cache; 0: a quarter of memory
	MemtableBytes   int64         // 0: 64 MiB, less on a small disk or with a small cache
	JournalInterval time.Duration // 0: 100 ms
	Compression     Compression   // of new tables
	Log             *slog.Logger  // nil: discard

	// ReadOnly opens a store that exists, and keeps all changes in memory: the
	// directory is only read, and nothing in it changes. No table is rewritten.
	ReadOnly bool

	// OnFatal is called with an error after which the engine cannot continue. It should
	// end the process; where it returns, the engine panics.
	OnFatal func(error)
	// OnStall is told when one disk operation has taken so long already; of a sync of the
	// journal again and again, until it has ended.
	OnStall func(path string, took time.Duration)
	// OnCorruption is told of damaged bytes found in the background.
	OnCorruption func(error)

	// patience is compactPatience, unless a test has less.
	patience time.Duration
	// byHand leaves all compactions to callers: a test that checks levels of tables
	// would race with Pebble's own.
	byHand bool
}

// Compression is how tables are compressed.
type Compression uint8

// The compressions.
const (
	CompressionFast     Compression = iota // snappy, the default
	CompressionBalanced                    // snappy, zstd on the two last levels
	CompressionNone
)

// Engine is an open store. Safe for use by many goroutines.
type Engine struct {
	db            *pebble.DB
	cache         *pebble.Cache
	lock          *pebble.Lock
	health        io.Closer
	locks         *lockTable
	recent        recent
	journal       *journal
	control       *control
	space         *space
	pacing        *pacing
	retired       retired
	views         views
	idleCompactor *idleCompactor
	log           logger
	opts          Options
	opened        time.Time
	closed        atomic.Bool

	idents  idents
	applied atomic.Uint64

	fs     vfs.FS                // that Pebble has
	tables sstable.WriterOptions // of tables that are written here
	// apart is held while the store has a table of a unit and not yet the rest of it
	// (ApplyApart), and while a checkpoint is made, which must not have one without the other.
	apart sync.Mutex
}

// Open opens the store in opts.Dir, and creates it in an empty directory. Errors: code
// 98 if another process has it open, 20 if the directory cannot be written;
// *DamageError where data that the store once had would be missing, and ErrCorruption
// for other damage. After an error nothing was changed.
func Open(opts Options) (*Engine, error) {
	opts = opts.withDefaults()
	if opts.ReadOnly {
		if _, err := opts.FS.Stat(opts.FS.PathJoin(opts.Dir, formatFile)); err != nil {
			return nil, fmt.Errorf("no store in %s: %w", opts.Dir, err)
		}
		opts.FS = ReadOnly(opts.FS)
	}
	if err := opts.FS.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := pebble.LockDirectory(opts.Dir, opts.FS)
	if err != nil {
		return nil, lockError(opts.Dir, err)
	}
	e := &Engine{lock: lock, opts: opts, locks: newLockTable(), opened: time.Now()}
	e.recent.e = e
	if err := e.open(); err != nil {
		lock.Close()
		return nil, mapError(err)
	}
	return e, nil
}

// lockError is the error of a data directory that cannot be locked.
func lockError(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return mongoerr.New(mongoerr.IllegalOperation, "Attempted to create a lock file on a read-only directory: %s (%v)", dir, err)
	case errors.As(err, new(*fs.PathError)):
		return fmt.Errorf("lock file of the data directory %s: %w", dir, err)
	}
	return mongoerr.New(mongoerr.DBPathInUse,
		"Unable to lock the data directory %s (%v). Another mayfly instance is already running on it.", dir, err)
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes()
	}
	if o.JournalInterval == 0 {
		o.JournalInterval = DefaultJournalInterval
	}
	if o.patience == 0 {
		o.patience = compactPatience
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// memtableFor returns the size of memtables on the disk of dir. The greatest number
// of them together is no larger than the cache, from whose memory they are taken.
func memtableFor(fs FS, dir string, cache int64) int64 {
	n := min(memtableBytes, cache/memtablesMax)
	if u, err := fs.GetDiskUsage(dir); err == nil {
		n = min(n, int64(u.TotalBytes/memtableDiskShare))
	}
	return max(n, memtableBytesMin)
}

func (e *Engine) open() error {
	f, err := loadFormat(e.opts.FS, e.opts.Dir)
	if err != nil {
		return err
	}
	damages, err := Inspect(e.opts.FS, e.opts.Dir)
	if err != nil {
		return err
	}
	if len(damages) > 0 {
		return &DamageError{e.opts.Dir, damages}
	}
	if err := recoverable(e.opts.FS, e.opts.Dir); err != nil {
		return err
	}
	if e.control, err = e.openControl(&f); err != nil {
		return err
	}
	if e.opts.MemtableBytes == 0 {
		e.opts.MemtableBytes = memtableFor(e.opts.FS, e.opts.Dir, e.opts.CacheBytes)
	}
	e.log = logger{e}
	e.journal = newJournal(e.opts.JournalInterval, e.fatal)
	e.journal.stall = stallWatch{after: slowDiskThreshold, report: e.stalled}
	e.space = newSpace(e.opts.FS, e.opts.Dir, memtablesMax*e.opts.MemtableBytes, e.log)
	e.pacing = &pacing{since: time.Now(), metrics: func() *pebble.Metrics { return e.db.Metrics() }}
	inner := &engineFS{FS: e.opts.FS, journal: e.journal, control: e.control, space: e.space, pacing: e.pacing, damaged: e.corrupt}
	fs, health := vfs.WithDiskHealthChecks(inner, slowDiskThreshold, nil, func(i vfs.DiskSlowInfo) {
		e.stalled(i.Path, i.Duration)
	})
	e.fs, e.health = fs, health
	e.idleCompactor = newIdleCompactor(e)
	e.cache = pebble.NewCache(e.opts.CacheBytes)
	po := e.pebbleOptions(fs)
	po.FormatMajorVersion = f.pebble
	po.EnsureDefaults()
	e.tables = po.MakeWriterOptions(len(po.Levels)-1, f.pebble.MaxTableFormat())
	if e.db, err = pebble.Open(e.opts.Dir, po); err != nil {
		e.cache.Unref()
		return errors.Join(e.openError(err), health.Close(), e.control.close())
	}
	go e.journal.run()
	if err := e.control.noteOpened(uint64(f.pebble)); err != nil {
		return errors.Join(err, e.closeStore())
	}
	if err := e.loadMeta(); err != nil {
		return errors.Join(err, e.closeStore())
	}
	if !e.opts.ReadOnly {
		e.idleCompactor.opened()
	}
	return nil
}

// openError returns the error where Pebble did not open the store. Where there was a
// store, and the error is not the file system's, the store is damaged.
func (e *Engine) openError(err error) error {
	err = fmt.Errorf("open store in %s: %w", e.opts.Dir, err)
	if !e.control.opened || vfs.IsNoSpaceError(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EIO) || pebble.IsCorruptionError(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorruption, err)
}

// openControl opens the control file, which it creates if there is none, and
// upgrades a store of an earlier format.
func (e *Engine) openControl(f *format) (*control, error) {
	rec, _, err := readControl(e.opts.FS, e.opts.Dir)
	if err != nil && !errors.Is(err, ErrCorruption) { // Inspect has found no store behind a damaged one
		return nil, err
	}
	c, err := openControl(e.opts.FS, e.opts.Dir, rec)
	if err == nil && f.version < FormatVersion {
		f.version = FormatVersion
		if err = writeFormat(e.opts.FS, e.opts.Dir, *f); err != nil {
			c.close()
		}
	}
	return c, err
}

func (e *Engine) pebbleOptions(fs vfs.FS) *pebble.Options {
	o := &pebble.Options{
		Cache:                       e.cache,
		FS:                          fs,
		Lock:                        e.lock,
		Logger:                      e.log,
		Merger:                      merger,
		MemTableSize:                uint64(e.opts.MemtableBytes),
		MemTableStopWritesThreshold: memtablesMax,
		L0CompactionFileThreshold:   l0CompactionFiles,
		L0CompactionThreshold:       l0CompactionDepth,
		L0StopWritesThreshold:       l0StopDepth,
		LBaseMaxBytes:               levelBaseBytes,
		MaxOpenFiles:                openTablesMax,
		FlushDelayDeleteRange:       rangeDeleteFlush,
		CompactionConcurrencyRange:  func() (int, int) { return 1, max(2, runtime.NumCPU()/2) },
		DisableAutomaticCompactions: e.opts.ReadOnly,
		EventListener: &pebble.EventListener{
			BackgroundError: e.backgroundError,
			DataCorruption:  func(i pebble.DataCorruptionInfo) { e.corrupt(corruptionOf(&i)) },
		},
	}
	// Logs have nothing but batches, also for those who read them (examine.go).
	o.Experimental.DisableIngestAsFlushable = func() bool { return true }
	o.Experimental.EnableDeleteOnlyCompactionExcises = func() bool { return true }
	o.DisableAutomaticCompactions = e.opts.byHand
	o.TargetFileSizes[0] = targetFileBytes
	for i := range o.Levels {
		o.Levels[i].BlockSize = blockBytes
		o.Levels[i].IndexBlockSize = indexBlockBytes
		o.Levels[i].FilterPolicy = pebble.NoFilterPolicy
		if i < numLevelsWithBloom {
			o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
		}
	}
	switch e.opts.Compression {
	case CompressionBalanced:
		o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	case CompressionNone:
		o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	}
	return o
}

// Close ends the engine; all that was committed is durable afterwards. All
// units, snapshots and iterators must be closed before. A second Close does
// nothing.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	return errors.Join(e.closeStore(), e.lock.Close())
}

func (e *Engine) closeStore() error {
	e.pacing.over.Store(true)
	e.space.stop()
	e.idleCompactor.stop()
	e.journal.stop()
	err := errors.Join(e.views.stop(), e.retired.stop(), e.db.Close(), e.control.close())
	e.cache.Unref()
	return mapError(errors.Join(err, e.health.Close()))
}

// Sync returns when all that was committed before the call is durable, what has come
// from the log of a replicated group too.
func (e *Engine) Sync(ctx context.Context) error {
	if err := e.db.LogData(nil, pebble.Sync); err != nil {
		return mapError(err)
	}
	return e.journal.wait(ctx)
}

// SetJournalInterval changes how long a commit may wait for the disk.
func (e *Engine) SetJournalInterval(d time.Duration) { e.journal.interval.Store(int64(d)) }

// Flush writes the memtables to tables.
func (e *Engine) Flush() error { return mapError(e.db.Flush()) }

// StartFlush starts to write the memtables to tables; done is closed when they are there,
// which on a full disk may be never.
func (e *Engine) StartFlush() (done <-chan struct{}, err error) {
	done, err = e.db.AsyncFlush()
	return done, mapError(err)
}

// Checkpoint makes a consistent copy of the store in dir, which must not
// exist; it shares files with the store where the file system can.
func (e *Engine) Checkpoint(dir string) error { return e.checkpoint(dir) }

// CheckpointWithout is Checkpoint without the tables that have nothing but keys of a
// keyspace in [lower, upper). What the copy has of those keys is worth nothing: it must
// be deleted as a range before it is read.
func (e *Engine) CheckpointWithout(dir string, id Ident, lower, upper []byte) error {
	bounds, n := rangeBounds(nil, id, lower, upper)
	return e.checkpoint(dir, pebble.WithRestrictToSpans([]pebble.CheckpointSpan{
		{Start: AppendIdent(nil, IdentMeta), End: bounds[:n]},
		{Start: bounds[n:], End: []byte{0xff}}, // no ident begins so
	}))
}

func (e *Engine) checkpoint(dir string, more ...pebble.CheckpointOption) error {
	e.apart.Lock()
	defer e.apart.Unlock()
	if err := e.db.Checkpoint(dir, append(more, pebble.WithFlushedWAL())...); err != nil {
		return mapError(err)
	}
	f, err := readFormat(e.opts.FS, e.opts.Dir)
	if err != nil {
		return err
	}
	c, err := openControl(e.opts.FS, dir, controlRecord{opened: true, format: uint64(f.pebble)})
	if err != nil {
		return err
	}
	return errors.Join(c.close(), writeFormat(e.opts.FS, dir, f))
}

// keyApplied has the position in the log of what was last applied.
var keyApplied = appendKey(nil, IdentMeta, []byte("applied"))

// Applied is the index, in the log of a replicated group, of the unit that was applied
// last; 0 if there was none.
func (e *Engine) Applied() uint64 { return e.applied.Load() }

// loadMeta reads the engine's own keys.
func (e *Engine) loadMeta() error {
	for r := range e.idents.next {
		n, err := metaNumber(e.db, keysNextIdent[r])
		if err != nil {
			return err
		}
		e.idents.next[r] = max(firstIdents[r], Ident(n))
	}
	n, err := metaNumber(e.db, keyApplied)
	e.applied.Store(n)
	return err
}

// metaNumber reads one of the engine's own numbers, 0 if it was never written.
func metaNumber(g getter, key []byte) (uint64, error) {
	v, closer, err := g.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: %q is %x", ErrCorruption, key[1:], v)
	}
	return binary.BigEndian.Uint64(v), nil
}

func (e *Engine) stalled(path string, took time.Duration) {
	if e.space.full.Load() {
		return // it waits for space, which was reported
	}
	e.log.Errorf("disk operation on %s has taken %s", path, took)
	if e.opts.OnStall != nil {
		e.opts.OnStall(path, took)
	}
}

func (e *Engine) backgroundError(err error) {
	if !vfs.IsNoSpaceError(err) { // otherwise space has reported it
		e.log.Errorf("background error: %v", mapError(err))
	}
}

// corrupt reports a table that was found damaged when it was read.
func (e *Engine) corrupt(err error) {
	var d *tableError
	if errors.As(err, &d) {
		e.opts.Log.Error("storage: corruption", "file", d.name, "offset", d.offset, "error", d.what)
	} else {
		e.log.Errorf("corruption: %v", err)
	}
	if e.opts.OnCorruption != nil {
		e.opts.OnCorruption(err)
	}
}

func (e *Engine) fatal(err error) {
	e.opts.Log.Error("storage: fatal", "error", err)
	if e.opts.OnFatal != nil {
		e.opts.OnFatal(err)
	}
	panic(fmt.Sprintf("storage: %v", err))
}

// logger passes Pebble's log lines to our logger.
type logger struct{ e *Engine }

func (l logger) Infof(format string, args ...any) {
	l.e.opts.Log.Debug("storage: " + fmt.Sprintf(format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	l.e.opts.Log.Error("storage: " + fmt.Sprintf(format, args...))
}

// Fatalf ends the process: Pebble's state is undefined when it returns.
func (l logger) Fatalf(format string, args ...any) { l.e.fatal(fmt.Errorf(format, args...)) }
