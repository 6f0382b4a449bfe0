package bench

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// hasSuffix reports whether a file counts: any does if there are no endings.
func hasSuffix(e fs.DirEntry, endings []string) bool {
	for _, end := range endings {
		if strings.HasSuffix(e.Name(), end) {
			return true
		}
	}
	return len(endings) == 0
}

// treeSize is what the files below a directory take on disk, those with one of
// the endings. Files that are removed during the walk do not count.
func treeSize(dir string, endings ...string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !hasSuffix(e, endings) {
			return ignoreGone(err)
		}
		i, err := e.Info()
		if err == nil {
			total += i.Size()
		}
		return ignoreGone(err)
	})
	return total, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
