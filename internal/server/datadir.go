package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// dirMode is the mode of created data directories.
const dirMode = 0o700

// prepareDirectory makes sure that the data directory exists. It creates one only if
// the parent exists: a mistyped path, or a disk that is not mounted, must not become an
// empty database.
func prepareDirectory(path string, log *slog.Logger) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return mongoerr.New(mongoerr.NonExistentPath, "Data directory %s is not a directory.", path)
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if err := os.Mkdir(path, dirMode); err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return mongoerr.New(mongoerr.NonExistentPath, "Data directory %s not found, nor the directory it would lie in. Create the missing directory or specify another path using "+
			"(1) the --dbpath command line option, or (2) by adding the 'storage.dbPath' option in the configuration file.", path)
	}
	log.Info("Created the data directory", "id", logCreatedDirectory, "dbPath", path)
	return nil
}

// emptyDirectory creates an empty directory for temporary files, and removes the files
// of an earlier process.
func emptyDirectory(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.Mkdir(path, dirMode)
}

// writePIDFile writes the process id if the options say so, and returns a function that
// removes the file.
func writePIDFile(path string) (remove func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(path) }, nil
}
