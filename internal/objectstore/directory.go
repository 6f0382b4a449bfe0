package objectstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// staleTemp is the age of a file in TempDirectory that nobody writes any more.
const staleTemp = 24 * time.Hour

// directory is a Store in a directory.
type directory struct {
	dir string
	// sweep removes, once, what writers that died have left.
	sweep func() error
}

// NewDirectory returns a store in a directory, which is made when something is stored.
func NewDirectory(dir string) Store {
	d := &directory{dir: filepath.Clean(dir)}
	d.sweep = sync.OnceValue(d.sweepTemp)
	return d
}

// String implements Store.
func (d *directory) String() string { return d.dir }

func (d *directory) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// Temp implements Store.
func (d *directory) Temp(context.Context) (*os.File, error) {
	if err := d.sweep(); err != nil {
		return nil, err
	}
	return os.OpenFile(d.path(path.Join(TempDirectory, rand.Text())), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

// isTemp reports whether a file in TempDirectory has a name that Temp gives: the directory may be somebody
// else's, too.
func isTemp(e fs.DirEntry) bool {
	return e.Type().IsRegular() && len(e.Name()) == len(rand.Text()) && strings.Trim(e.Name(), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// sweepTemp removes what writers that died have left.
func (d *directory) sweepTemp() error {
	dir := d.path(TempDirectory)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if info, err := e.Info(); err == nil && isTemp(e) && time.Since(info.ModTime()) > staleTemp {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next one tries again
		}
	}
	return nil
}

// Put implements Store.
func (d *directory) Put(_ context.Context, name string, temp *os.File) error {
	to := d.path(name)
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := makeDirectories(filepath.Dir(to)); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), to); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(to))
}

// Get implements Store.
func (d *directory) Get(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(d.path(name))
}

// GetRange implements Store.
func (d *directory) GetRange(_ context.Context, name string, from, bytes int64) (io.ReadCloser, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, from, bytes), f}, nil
}

// List implements Store.
func (d *directory) List(_ context.Context, below string) (all []StoredFile, err error) {
	err = filepath.WalkDir(d.path(below), func(p string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(d.dir, p)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err == nil {
			all = append(all, StoredFile{filepath.ToSlash(name), info.Size()})
		}
		return err
	})
	return all, err
}

// Remove implements Store.
func (d *directory) Remove(_ context.Context, name string) error {
	if err := os.Remove(d.path(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(d.path(name)))
}

// Move implements Store.
func (d *directory) Move(_ context.Context, from, to string) error {
	if err := os.MkdirAll(filepath.Dir(d.path(to)), 0o700); err != nil {
		return err
	}
	return os.Rename(d.path(from), d.path(to))
}

// directoryLock is a file that is locked while it is open.
type directoryLock struct {
	f   *os.File
	end context.CancelFunc
}

// Lock implements Store.
func (d *directory) Lock(ctx context.Context, name string, exclusive bool) (context.Context, Lock, error) {
	p := d.path(name + ".lock")
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := lockFile(f, exclusive); err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, fmt.Errorf("%s is in use by another process: %w", p, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	return ctx, &directoryLock{f, cancel}, nil
}

// Check implements Lock.
func (l *directoryLock) Check(context.Context) error { return nil }

// Unlock implements Lock.
func (l *directoryLock) Unlock() error {
	l.end()
	return l.f.Close()
}

// makeDirectories makes a directory and those above it that do not exist, durably.
func makeDirectories(dir string) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(dir)
	if err := makeDirectories(above); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDirectory(above)
}

// SyncDirectory makes durable what a directory lists.
func SyncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
