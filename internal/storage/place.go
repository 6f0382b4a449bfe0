package storage

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// placeFile names the directory, within the server's, that has the store. A server
// whose data never came from another member has no such file: its directory is the
// store's.
const placeFile = "mayfly.place"

// storePrefix is the prefix of the names of such directories.
const storePrefix = "store-"

// OSFS is the operating system's file system.
func OSFS() FS { return vfs.Default }

// InMemory is an empty file system in memory, for data that ends with the process. (NewMemFS
// is for tests of the store: it keeps what was synced a second time.)
func InMemory() FS { return vfs.NewMem() }

// Place is the directory of the store of a server whose data directory is dir. Errors:
// ErrCorruption where the file that names it cannot be understood, and that of an unfinished
// directory.
func Place(fs FS, dir string) (string, error) {
	switch unfinished, err := IsUnfinished(fs, dir); {
	case err != nil:
		return "", err
	case unfinished:
		return "", errUnfinished(dir)
	}
	name, err := placeName(fs, dir)
	if err != nil || name == "" {
		return dir, err
	}
	return fs.PathJoin(dir, name), nil
}

func placeName(fs FS, dir string) (string, error) {
	path := fs.PathJoin(dir, placeFile)
	f, err := fs.Open(path)
	if oserror.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 256))
	if err != nil {
		return "", err
	}
	name, ok := strings.CutSuffix(string(b), "\n")
	if !ok || !strings.HasPrefix(name, storePrefix) || strings.ContainsAny(name, `/\`) {
		return "", fmt.Errorf("%w: %s names no directory: %q", ErrCorruption, path, b)
	}
	return name, nil
}

// Switch makes the closed store in the directory incoming, which must be on the same
// file system, the store of a server whose data directory is dir. It is one step: after
// a crash the server has the old store or the new one. It returns where the new store is
// then; the old one stays where it was.
func Switch(fs FS, dir, incoming string) (place string, err error) {
	old, err := placeName(fs, dir)
	if err != nil {
		return "", err
	}
	n := 0
	if _, err := fmt.Sscanf(old, storePrefix+"%d", &n); old != "" && err != nil {
		return "", fmt.Errorf("%w: %s has the name %q", ErrCorruption, placeFile, old)
	}
	name := fmt.Sprintf("%s%d", storePrefix, n+1)
	place = fs.PathJoin(dir, name)
	if err := fs.RemoveAll(place); err != nil { // of a switch that did not complete
		return "", err
	}
	if err := fs.Rename(incoming, place); err != nil {
		return "", err
	}
	if err := syncDir(fs, dir); err != nil {
		return "", err
	}
	temp := fs.PathJoin(dir, placeFile+".tmp")
	f, err := fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", err
	}
	if _, err = f.Write([]byte(name + "\n")); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = fs.Rename(temp, fs.PathJoin(dir, placeFile))
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	return place, err
}

// storeFiles are the names of a store's files. The lock stays: another process that
// still believes that the store is the directory itself must find it.
var storeFiles = regexp.MustCompile(`^(\d{6,}\.(sst|log|blob)|(MANIFEST|OPTIONS)-\d+|marker\..+|mayfly\.(format|control))$`)

// RemoveOldPlaces removes stores in a server's directory that are not its store any
// more.
func RemoveOldPlaces(fs FS, dir string) error {
	name, err := placeName(fs, dir)
	if err != nil {
		return err
	}
	list, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, old := range list {
		if strings.HasPrefix(old, storePrefix) && old != name || name != "" && storeFiles.MatchString(old) {
			if err := fs.RemoveAll(fs.PathJoin(dir, old)); err != nil {
				return err
			}
		}
	}
	return nil
}
