package storage

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// formatFile has the format of the other files in the data directory.
	formatFile = "mayfly.format"
	// FormatVersion is the layout of keys and values that this build writes. It
	// rises with a migration and a golden-bytes test, never otherwise.
	//
	// 2 has a control file. From 3 on, the progress of staged measurements may have
	// a cut and no source, and keyspaces of this member alone idents of their own. From 4
	// on there are prepare records, whose locks a primary must have.
	FormatVersion = 4
	// controlledSince is the FormatVersion from which on a store has a control file.
	controlledSince = 2
	// pebbleFormat is the format of Pebble's files in new stores. Not the newest:
	// from FormatWALSyncChunks on, each log record promises up to which offset the
	// log is synced, as Pebble sees it. Our syncs come later (engineFS), so after
	// a power loss that promise would be broken and recovery would refuse the
	// store as corrupt. It has what we use: DeleteSized, excise, columnar blocks.
	pebbleFormat = pebble.FormatColumnarBlocks
)

// format is the content of formatFile.
type format struct {
	version int
	pebble  pebble.FormatMajorVersion
}

func (f format) String() string {
	return fmt.Sprintf("mayfly %d\npebble %d\n", f.version, f.pebble)
}

// loadFormat reads the store's format, or writes the newest into an empty
// directory. Called under the directory's lock.
func loadFormat(fs vfs.FS, dir string) (format, error) {
	got, err := readFormat(fs, dir)
	if oserror.IsNotExist(err) {
		return createFormat(fs, dir)
	}
	if err != nil {
		return format{}, err
	}
	if got.version > FormatVersion {
		return format{}, fmt.Errorf("data directory %s has format %d, written by a newer version; this one reads up to %d", dir, got.version, FormatVersion)
	}
	if got.pebble < pebble.FormatMinSupported || got.pebble > pebbleFormat {
		return format{}, fmt.Errorf("data directory %s has storage engine format %d; this version reads %d to %d",
			dir, got.pebble, pebble.FormatMinSupported, pebbleFormat)
	}
	return got, nil
}

// readFormat reads the store's format. Errors: ErrCorruption where it cannot be
// read.
func readFormat(fs vfs.FS, dir string) (got format, err error) {
	path := fs.PathJoin(dir, formatFile)
	f, err := fs.Open(path)
	if err != nil {
		return got, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return got, err
	}
	_, err = fmt.Sscanf(string(b), "mayfly %d\npebble %d\n", &got.version, &got.pebble)
	if err != nil || got.version < 1 || got.String() != string(b) {
		return got, fmt.Errorf("%w: %s cannot be read: %q", ErrCorruption, path, b)
	}
	return got, nil
}

func createFormat(fs vfs.FS, dir string) (format, error) {
	names, err := fs.List(dir)
	if err != nil {
		return format{}, err
	}
	if slices.Contains(names, controlFile) {
		return format{}, &DamageError{dir, []Damage{{formatFile, 0, "the file is missing, and with it the format of the others; no data is lost"}}}
	}
	for _, n := range names {
		if strings.HasPrefix(n, "MANIFEST") || strings.HasPrefix(n, "WiredTiger") || strings.HasSuffix(n, ".wt") {
			return format{}, fmt.Errorf("data directory %s holds another program's files (%s)", dir, n)
		}
	}
	want := format{FormatVersion, pebbleFormat}
	return want, writeFormat(fs, dir, want)
}

// writeFormat replaces the store's format, in one step.
func writeFormat(fs vfs.FS, dir string, want format) error {
	tmp := fs.PathJoin(dir, formatFile+".tmp")
	f, err := fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte(want.String())); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fs.Rename(tmp, fs.PathJoin(dir, formatFile)); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		d.Close()
		return err
	}
	return d.Close()
}
