package objectstore

import (
	"context"
	"io"
	"os"
)

// The directories that a store has for itself.
const (
	// TempDirectory has what is not stored yet.
	TempDirectory = "tmp"
	// LocksDirectory has the locks of a store whose files cannot be locked.
	LocksDirectory = "locks"
)

// Store is where files are kept that are written once: a directory (NewDirectory) or a bucket
// (internal/objectstore/bucket). Names have slashes between their parts. A file that is not there is
// fs.ErrNotExist. Safe for use by many goroutines.
type Store interface {
	// String tells a person where it is.
	String() string
	// Temp opens a new file for what Put will store. Whoever opened it closes and removes it.
	Temp(ctx context.Context) (*os.File, error)
	// Put stores all of a file that Temp has opened: it has its name once it is durable and whole.
	// If there is one of the name, either stays.
	Put(ctx context.Context, name string, temp *os.File) error
	// Get opens a file.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// GetRange opens so many bytes of a file, from one on: fewer where it ends before.
	GetRange(ctx context.Context, name string, from, bytes int64) (io.ReadCloser, error)
	// List lists the files below a directory, "" for all, or the file of that name, in order.
	List(ctx context.Context, directory string) ([]StoredFile, error)
	// Remove removes a file, durably. It may be gone already.
	Remove(ctx context.Context, name string) error
	// Move renames a file.
	Move(ctx context.Context, from, to string) error
	// Lock takes a lock, which others may share unless it is exclusive. It does not wait. The
	// context that it returns ends when the lock is lost, or is unlocked.
	Lock(ctx context.Context, name string, exclusive bool) (context.Context, Lock, error)
}

// StoredFile is a file of a store.
type StoredFile struct {
	Name string
	Size int64
}

// Lock is a lock that is held.
type Lock interface {
	// Check returns an error if the lock was lost.
	Check(ctx context.Context) error
	// Unlock gives it back.
	Unlock() error
}
