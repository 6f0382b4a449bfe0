package storage

import (
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

// engineFS stands between Pebble and the file system.
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
// It also sees the disk run full first: see space.
type engineFS struct {
	vfs.FS
	journal *journal
	space   *space
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
	f, err := fs.FS.ReuseForWrite(oldname, newname, category)
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

func (fs *engineFS) wrap(f vfs.File, name string, category vfs.DiskWriteCategory) vfs.File {
	g := &spaceFile{File: f, space: fs.space, vital: vital(category)}
	if category != categoryWAL {
		return g
	}
	w := &walFile{spaceFile: g, name: name, journal: fs.journal}
	fs.journal.attach(w)
	return w
}

// vital says that Pebble cannot go on without files of the category: writes to
// them wait for space instead of failing. Tables are not: Pebble tries again.
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

// walFile is a log file whose syncs are the journal's.
type walFile struct {
	*spaceFile
	name    string
	journal *journal
	dirty   atomic.Bool // written since the last real sync began
	mu      sync.Mutex  // held over a real sync, so that Close waits for it
	closed  bool        // guarded by mu
}

func (f *walFile) Write(p []byte) (int, error) {
	n, err := f.spaceFile.Write(p)
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

// syncNow makes what was written before the call durable.
func (f *walFile) syncNow() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncLocked()
}

func (f *walFile) syncLocked() error {
	if f.closed || !f.dirty.Swap(false) {
		return nil
	}
	if err := f.File.SyncData(); err != nil {
		f.dirty.Store(true)
		return err
	}
	return nil
}

func (f *walFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.syncLocked()
	f.closed = true
	f.journal.detach(f)
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return err
}
