package storage

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflydb/mayfly/internal/seal"
)

// MemFS is a file system in memory, for tests: it can lose what was not
// synced, run full, and fail at a chosen operation.
type MemFS struct {
	vfs.FS
	mem  *vfs.MemFS
	keys *sealedFS // nil: not encrypted

	quota  atomic.Int64 // bytes that may still be written
	limits atomic.Bool  // quota counts
	fault  atomic.Pointer[func(op, name string) error]
}

// memKeys are those under which all new file systems in memory are encrypted; nil for none. A
// test that runs others with encryption sets them.
var memKeys *sealedFS

// NewMemFS makes an empty file system.
func NewMemFS() *MemFS { return wrapMem(vfs.NewCrashableMem(), memKeys) }

// NewEncryptedMemFS makes an empty file system that is encrypted under keys of its own: what a
// crash tears is what the disk has.
func NewEncryptedMemFS() *MemFS {
	return wrapMem(vfs.NewCrashableMem(), &sealedFS{key: seal.NewKey(), id: seal.NewStoreID()})
}

func wrapMem(m *vfs.MemFS, keys *sealedFS) *MemFS {
	f := &MemFS{FS: m, mem: m, keys: keys}
	if keys != nil {
		f.FS = &sealedFS{FS: m, key: keys.key, id: keys.id}
	}
	return f
}

// Crash returns what a machine that loses power now could find on its disk:
// all that was synced, and of the rest each piece with the given chance in
// percent. 100 is what the death of the process alone leaves. rng may be nil for 0
// and 100.
func (m *MemFS) Crash(percent int, rng *rand.Rand) *MemFS {
	if rng == nil {
		rng = rand.New(rand.NewPCG(0, 0))
	}
	return wrapMem(m.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), m.keys)
}

// SetQuota sets how many bytes can be written before the disk is full; a negative number
// removes the limit.
func (m *MemFS) SetQuota(bytes int64) {
	m.quota.Store(bytes)
	m.limits.Store(bytes >= 0)
}

// SetFault registers f, which is asked before every operation that changes a file:
// "create", "write", "sync", "rename", "remove". What it returns is the operation's
// error. nil ends it.
func (m *MemFS) SetFault(f func(op, name string) error) {
	if f == nil {
		m.fault.Store(nil)
		return
	}
	m.fault.Store(&f)
}

func (m *MemFS) check(op, name string) error {
	if f := m.fault.Load(); f != nil {
		return (*f)(op, name)
	}
	return nil
}

// Unwrap is vfs.FS's.
func (m *MemFS) Unwrap() vfs.FS { return m.FS }

// GetDiskUsage tells the quota, if there is one.
func (m *MemFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	if !m.limits.Load() {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	left := uint64(max(0, m.quota.Load()))
	return vfs.DiskUsage{AvailBytes: left, TotalBytes: left}, nil
}

// Create is vfs.FS's.
func (m *MemFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := m.check("create", name); err != nil {
		return nil, err
	}
	f, err := m.FS.Create(name, c)
	return m.wrap(f, name, err)
}

// OpenReadWrite is vfs.FS's.
func (m *MemFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := m.FS.OpenReadWrite(name, c, opts...)
	return m.wrap(f, name, err)
}

// ReuseForWrite is vfs.FS's.
func (m *MemFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := m.check("rename", newname); err != nil {
		return nil, err
	}
	f, err := m.FS.ReuseForWrite(oldname, newname, c)
	return m.wrap(f, newname, err)
}

// Rename is vfs.FS's.
func (m *MemFS) Rename(oldname, newname string) error {
	if err := m.check("rename", newname); err != nil {
		return err
	}
	return m.FS.Rename(oldname, newname)
}

// Remove is vfs.FS's.
func (m *MemFS) Remove(name string) error {
	if err := m.check("remove", name); err != nil {
		return err
	}
	return m.FS.Remove(name)
}

func (m *MemFS) wrap(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &memFile{f, m, name}, nil
}

type memFile struct {
	vfs.File
	fs   *MemFS
	name string
}

func (f *memFile) Write(p []byte) (int, error) {
	if err := f.fs.check("write", f.name); err != nil {
		return 0, err
	}
	if f.fs.limits.Load() && f.fs.quota.Add(-int64(len(p))) < 0 {
		f.fs.quota.Add(int64(len(p)))
		return 0, syscall.ENOSPC
	}
	return f.File.Write(p)
}

func (f *memFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.fs.check("write", f.name); err != nil {
		return 0, err
	}
	if f.fs.limits.Load() && f.fs.quota.Add(-int64(len(p))) < 0 {
		f.fs.quota.Add(int64(len(p)))
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, at)
}

func (f *memFile) Sync() error {
	if err := f.fs.check("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *memFile) SyncData() error {
	if err := f.fs.check("sync", f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}
