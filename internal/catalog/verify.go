package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflydb/mayfly/internal/storage"
)

// verifyCacheBytes is the block cache of a store that is read once.
const verifyCacheBytes = 64 << 20

// Progress is called with how much of a stage is done: bytes of tables, or documents
// of one collection.
type Progress func(stage string, done, total int64)

// Verification is what Verify found.
type Verification struct {
	// Damages are the damaged files.
	Damages []storage.Damage
	// Invalid are the collections whose documents, index entries and counts do not
	// agree.
	Invalid []*Validation
	// Unread is the reason why the documents were not read, or "".
	Unread string

	Collections, Documents, Entries int64
}

// Valid says that nothing was found.
func (v *Verification) Valid() bool {
	return len(v.Damages) == 0 && len(v.Invalid) == 0 && v.Unread == ""
}

// Verify reads all files of a store that no process has open, and compares all documents
// with the entries of all indexes; fs is nil for the operating system's. It changes
// nothing in the directory, and makes no file anywhere. Errors are those of the file
// system and of ctx, and code 98 if a server has the store open.
func Verify(ctx context.Context, fs storage.FS, dir string, progress Progress) (*Verification, error) {
	dir, err := storage.Place(storage.FileSystem(fs), dir)
	if err != nil {
		return nil, err
	}
	x, err := storage.Examine(ctx, fs, dir, func(done, total int64) { progress("tables", done, total) })
	if err != nil {
		return nil, err
	}
	v := &Verification{Damages: x.Damages}
	if err := x.Close(); err != nil || len(v.Damages) > 0 {
		v.Unread = "files are damaged"
		return v, err
	}
	e, err := storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: verifyCacheBytes, ReadOnly: true})
	if err == nil {
		err = errors.Join(v.documents(ctx, e, progress), e.Close())
	}
	if errors.Is(err, storage.ErrCorruption) {
		v.Unread, err = err.Error(), nil
	}
	return v, err
}

// documents validates all collections.
func (v *Verification) documents(ctx context.Context, e *storage.Engine, progress Progress) error {
	c, err := Open(e, Options{})
	if err != nil {
		return err
	}
	for _, db := range c.Databases() {
		for _, coll := range c.Collections(db) {
			if coll.Ident == 0 {
				continue
			}
			found, err := c.validate(ctx, coll, validateEntries, func(done, total int64) { progress(coll.Namespace.String(), done, total) })
			if err != nil {
				return fmt.Errorf("collection %s: %w", coll.Namespace, err)
			}
			v.Collections++
			v.Documents += found.Records
			for _, ix := range found.Indexes {
				v.Entries += ix.Keys
			}
			if !found.Valid {
				v.Invalid = append(v.Invalid, found)
			}
		}
	}
	return c.Close()
}
