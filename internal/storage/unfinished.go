package storage

import (
	"fmt"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// unfinishedFile says that what lies in a server's directory is not the whole of its data
// yet: nothing opens it (Place).
const unfinishedFile = "mayfly.unfinished"

// SetUnfinished says, durably, that a server's directory is unfinished.
func SetUnfinished(fs FS, dir string) error {
	f, err := fs.Create(fs.PathJoin(dir, unfinishedFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// IsUnfinished reports whether a server's directory is unfinished.
func IsUnfinished(fs FS, dir string) (bool, error) {
	_, err := fs.Stat(fs.PathJoin(dir, unfinishedFile))
	if oserror.IsNotExist(err) {
		return false, nil
	}
	return err == nil, err
}

// SetFinished ends SetUnfinished, durably.
func SetFinished(fs FS, dir string) error {
	if err := syncDir(fs, dir); err != nil { // what else is in it
		return err
	}
	if err := fs.Remove(fs.PathJoin(dir, unfinishedFile)); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// errUnfinished is the error of an unfinished directory.
func errUnfinished(dir string) error {
	return fmt.Errorf("%s is not a whole data directory: mayfly restore has not finished it, or it is the copy of a member of a replica set (%s). Run mayfly restore again", dir, unfinishedFile)
}

// MarksUnfinished reports whether a file of that name makes a directory unfinished.
func MarksUnfinished(name string) bool { return name == unfinishedFile }
