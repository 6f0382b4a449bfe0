package storage

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The categories under which Pebble 2.1 opens the files that it cannot do
// without: an error on one of them ends the process.
const (
	categoryWAL      vfs.DiskWriteCategory = "pebble-wal"
	categoryManifest vfs.DiskWriteCategory = "pebble-manifest"
)

// noSpaceRetry is the pause between attempts to write to a full disk.
const noSpaceRetry = 100 * time.Millisecond

// FS is the file system under an engine.
type FS = vfs.FS

// File is an open file of a FS.
type File = vfs.File

// engineFS is the layer between Pebble and the file system.
//
// It splits Pebble's idea of a log sync in two: what Pebble calls a sync only
// passes the bytes to the operating system and marks the file dirty; the
// journal does the real one. Pebble 2.1 calls on a log file, from one
// goroutine at a time: Write, SyncData after the writes that a commit waits
// for, SyncTo (a hint), SyncData and Close when it rotates. Close makes the
// file durable here (invariant wal-closed), because Pebble starts the next log
// only after Close, and at recovery takes a torn end for corruption in every
// log but the last.
//
// It is also the first to see a full disk: see space.
type engineFS struct {
	vfs.FS
	journal *journal
	control *control
	space   *space
	pacing  *pacing
	damaged func(error)
	logs    sync.Map // of *walFile by name: those that were begun here and are there
}

// Open refuses a table whose footer is damaged: what Pebble does not check of it, it
// would go by. A log ends where it was written up to: what is behind that is of the log whose
// file it took over, and copies of the store need not have it.
func (fs *engineFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	if w, ok := fs.logs.Load(name); ok {
		return &begunLog{f, w.(*walFile).written.Load()}, nil
	}
	if !isTable(name) {
		return f, nil
	}
	if _, err := checkFooter(f, fs.PathBase(name)); err != nil {
		if errors.Is(err, ErrCorruption) {
			fs.damaged(err)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// begunLog is the part of a log that was written.
type begunLog struct {
	vfs.File
	left int64
}

func (f *begunLog) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	n, err := f.File.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, err
}

// Unwrap lets Pebble find the root file system.
func (fs *engineFS) Unwrap() vfs.FS { return fs.FS }

func (fs *engineFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	var f vfs.File
	err := fs.space.retry(vital(category), func() (err error) {
		f, err = fs.FS.Create(name, category)
		return err
	})
	if err != nil {
		return nil, err
	}
	return fs.wrap(f, name, category), nil
}

func (fs *engineFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.forget(oldname); err != nil {
		return nil, err
	}
	var f vfs.File
	err := fs.space.retry(vital(category), func() (err error) { // an encrypted one is a new file
		f, err = fs.FS.ReuseForWrite(oldname, newname, category)
		return err
	})
	if err != nil {
		return nil, err
	}
	return fs.wrap(f, newname, category), nil
}

func (fs *engineFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, category, opts...)
	if err != nil {
		return nil, err
	}
	return fs.wrap(f, name, category), nil
}

// Remove makes sure first that no start asks for the file.
func (fs *engineFS) Remove(name string) error {
	if err := fs.forget(name); err != nil {
		return err
	}
	return fs.FS.Remove(name)
}

func (fs *engineFS) forget(name string) error {
	f, ok := parseControlled(fs.PathBase(name))
	if !ok {
		return nil
	}
	fs.logs.Delete(name)
	return fs.control.forget(f)
}

func (fs *engineFS) wrap(f vfs.File, name string, category vfs.DiskWriteCategory) vfs.File {
	g := &spaceFile{File: f, space: fs.space, vital: vital(category)}
	c, ok := parseControlled(fs.PathBase(name))
	switch {
	case ok && category == categoryWAL:
		w := &walFile{spaceFile: g, name: name, file: c, journal: fs.journal, control: fs.control}
		fs.journal.attach(w)
		fs.logs.Store(name, w)
		return w
	case ok && category == categoryManifest:
		return &manifestFile{spaceFile: g, file: c, control: fs.control}
	case category == categoryFlush || category == categoryCompaction:
		return &pacedFile{spaceFile: g, pacing: fs.pacing, rested: time.Now()}
	}
	return g
}

// vital reports whether Pebble cannot continue without files of the category:
// writes to them wait for space instead of failing. Tables are not vital:
// Pebble tries again.
func vital(c vfs.DiskWriteCategory) bool {
	return c == categoryWAL || c == categoryManifest || c == vfs.WriteCategoryUnspecified
}

// spaceFile reports a full disk, and for vital files waits until it is not.
type spaceFile struct {
	vfs.File
	space *space
	vital bool
}

func (f *spaceFile) Write(p []byte) (n int, err error) {
	err = f.space.retry(f.vital, func() error {
		k, err := f.File.Write(p[n:])
		n += k
		return err
	})
	return n, err
}

func (f *spaceFile) Sync() error     { return f.finish(f.File.Sync) }
func (f *spaceFile) SyncData() error { return f.finish(f.File.SyncData) }
func (f *spaceFile) Close() error    { return f.finish(f.File.Close) }

// finish writes what an encrypted file has kept until then, as Write does, and calls last, which
// is not called again whatever it answers: what one sync has lost the next one does not tell.
func (f *spaceFile) finish(last func() error) error {
	var err error
	if s, ok := f.File.(*sealedFile); ok {
		err = f.space.retry(f.vital, s.flush)
	}
	return errors.Join(err, f.space.retry(false, last))
}

// manifestFile records in the control file how far it is synced.
type manifestFile struct {
	*spaceFile
	file    controlledFile
	control *control
	written int64
}

func (f *manifestFile) Write(p []byte) (int, error) {
	n, err := f.spaceFile.Write(p)
	f.written += int64(n)
	return n, err
}

func (f *manifestFile) Sync() error     { return f.synced(f.spaceFile.Sync()) }
func (f *manifestFile) SyncData() error { return f.synced(f.spaceFile.SyncData()) }

func (f *manifestFile) synced(err error) error {
	if err != nil {
		return err
	}
	return f.control.noteSynced(f.file, f.written)
}

// walFile is a log file that is synced by the journal.
type walFile struct {
	*spaceFile
	name    string
	file    controlledFile
	journal *journal
	control *control
	written atomic.Int64 // bytes that the operating system has
	synced  atomic.Int64 // of these, how many the disk has
	dirty   atomic.Bool  // the journal knows of bytes to sync
	mu      sync.Mutex   // held during a real sync, so that Close waits for it
	closed  bool         // guarded by mu
	failed  error        // of the last sync, guarded by mu
}

func (f *walFile) Write(p []byte) (int, error) {
	n, err := f.spaceFile.Write(p)
	f.written.Add(int64(n))
	if n > 0 && !f.dirty.Swap(true) {
		f.journal.markDirty()
	}
	return n, err
}

// Preallocate sets disk space aside ahead of writing, a memtable's worth at a
// time; not where tables will need it more.
func (f *walFile) Preallocate(offset, length int64) error {
	if !f.space.spare(length) {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

// Sync and SyncData are Pebble's word for "the commit may return": the bytes
// are the operating system's already.
func (f *walFile) Sync() error     { return nil }
func (f *walFile) SyncData() error { return nil }

// durable reports whether the disk has all that was written.
func (f *walFile) durable() bool { return f.synced.Load() >= f.written.Load() }

// syncNow makes what was written before the call durable. Where the file is being
// closed, that is Close's sync, which it waits for.
func (f *walFile) syncNow() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncLocked()
}

func (f *walFile) syncLocked() error {
	if f.closed || f.failed != nil {
		return f.failed
	}
	f.dirty.Store(false)
	size := f.written.Load()
	if size == f.synced.Load() {
		return nil
	}
	if f.failed = f.File.SyncData(); f.failed != nil {
		return f.failed
	}
	f.synced.Store(size)
	return f.control.noteSynced(f.file, size)
}

// Close makes the file durable first. Until then, commits that wait for the journal
// wait for it, too.
func (f *walFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.syncLocked()
	f.closed = true
	f.journal.closed(f, err)
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return err
}
