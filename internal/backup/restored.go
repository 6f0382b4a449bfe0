package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

// restoredFile says that a server's directory was restored, and that what is due is to be
// removed before it serves.
const restoredFile = "mayfly.restored"

// SetRestored says so, durably.
func SetRestored(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, restoredFile), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), objectstore.SyncDirectory(dir))
}

// IsRestored reports whether it was said.
func IsRestored(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, restoredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// SetServed ends SetRestored.
func SetServed(dir string) error {
	if err := os.Remove(filepath.Join(dir, restoredFile)); err != nil {
		return err
	}
	return objectstore.SyncDirectory(dir)
}
