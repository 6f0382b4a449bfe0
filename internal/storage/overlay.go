package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// overlay is a file system whose changes stay in memory: the one below is only read.
// A store that is open on an overlay leaves nothing behind, however the process
// ends.
type overlay struct {
	vfs.FS
	mem *vfs.MemFS

	mu   sync.Mutex
	gone map[string]bool // removed, but present below
}

// ReadOnly is a file system over another one, nil for the operating system's, that keeps
// all changes in memory.
func ReadOnly(below FS) FS {
	if below == nil {
		below = vfs.Default
	}
	return &overlay{FS: below, mem: vfs.NewMem(), gone: map[string]bool{}}
}

// Unwrap says that this is no wrapper: nobody is to go around it.
func (o *overlay) Unwrap() vfs.FS { return nil }

// GetDiskUsage returns zero: what is written takes no disk.
func (o *overlay) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, vfs.ErrUnsupported
}

// inMemory reports whether a file was written here; removed, that it was removed.
func (o *overlay) inMemory(name string) (here, removed bool) {
	o.mu.Lock()
	removed = o.gone[name]
	o.mu.Unlock()
	_, err := o.mem.Stat(name)
	return err == nil, removed
}

// Open opens what was written here, else what is below.
func (o *overlay) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	here, removed := o.inMemory(name)
	switch {
	case here:
		return o.mem.Open(name, opts...)
	case removed:
		return nil, &fs.PathError{Op: "open", Path: name, Err: oserror.ErrNotExist}
	}
	return o.FS.Open(name, opts...)
}

// Stat is vfs.FS's.
func (o *overlay) Stat(name string) (vfs.FileInfo, error) {
	here, removed := o.inMemory(name)
	switch {
	case here:
		return o.mem.Stat(name)
	case removed:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: oserror.ErrNotExist}
	}
	return o.FS.Stat(name)
}

// List is vfs.FS's.
func (o *overlay) List(dir string) ([]string, error) {
	names, err := o.FS.List(dir)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	names = slices.DeleteFunc(names, func(n string) bool { return o.gone[o.PathJoin(dir, n)] })
	o.mu.Unlock()
	written, err := o.mem.List(dir)
	if err != nil && !oserror.IsNotExist(err) {
		return nil, err
	}
	names = append(names, written...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Create is vfs.FS's.
func (o *overlay) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := o.mem.MkdirAll(o.PathDir(name), 0o755); err != nil {
		return nil, err
	}
	o.hide(name)
	return o.mem.Create(name, c)
}

// hide hides a file below.
func (o *overlay) hide(name string) {
	o.mu.Lock()
	o.gone[name] = true
	o.mu.Unlock()
}

// copyUp makes a copy in memory of a file that is about to be changed.
func (o *overlay) copyUp(name string) error {
	if here, _ := o.inMemory(name); here {
		return nil
	}
	from, err := o.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := o.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// OpenReadWrite is vfs.FS's.
func (o *overlay) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := o.copyUp(name); err != nil && !oserror.IsNotExist(err) {
		return nil, err
	}
	if err := o.mem.MkdirAll(o.PathDir(name), 0o755); err != nil {
		return nil, err
	}
	o.hide(name)
	return o.mem.OpenReadWrite(name, c, opts...)
}

// OpenDir opens the part of a directory that is in memory, which is enough for
// syncs.
func (o *overlay) OpenDir(name string) (vfs.File, error) {
	if err := o.mem.MkdirAll(name, 0o755); err != nil {
		return nil, err
	}
	return o.mem.OpenDir(name)
}

// Remove is vfs.FS's.
func (o *overlay) Remove(name string) error {
	if _, err := o.Stat(name); err != nil {
		return err
	}
	o.hide(name)
	if err := o.mem.Remove(name); err != nil && !oserror.IsNotExist(err) {
		return err
	}
	return nil
}

// RemoveAll removes a directory, which must be in memory.
func (o *overlay) RemoveAll(name string) error { return o.mem.RemoveAll(name) }

// Rename is vfs.FS's.
func (o *overlay) Rename(oldname, newname string) error {
	if err := o.copyUp(oldname); err != nil {
		return err
	}
	o.hide(oldname)
	o.hide(newname)
	return o.mem.Rename(oldname, newname)
}

// Link is vfs.FS's.
func (o *overlay) Link(oldname, newname string) error {
	if err := o.copyUp(oldname); err != nil {
		return err
	}
	return o.mem.Link(oldname, newname)
}

// ReuseForWrite makes a new file: the old one's bytes are of no use.
func (o *overlay) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := o.Remove(oldname); err != nil {
		return nil, err
	}
	return o.Create(newname, c)
}

// MkdirAll is vfs.FS's.
func (o *overlay) MkdirAll(dir string, perm os.FileMode) error { return o.mem.MkdirAll(dir, perm) }

// Lock keeps a server away from the files below while they are read, where one has been
// there, without writing anything.
func (o *overlay) Lock(name string) (io.Closer, error) {
	switch _, err := o.FS.Stat(name); {
	case oserror.IsNotExist(err):
		return io.NopCloser(nil), nil
	case err != nil:
		return nil, err
	case vfs.Root(o.FS) == vfs.Default:
		return lockForReading(name)
	}
	return o.FS.Lock(name)
}

// FileSystem is fs, or where that is nil the operating system's.
func FileSystem(fs FS) FS {
	if fs == nil {
		return vfs.Default
	}
	return fs
}
