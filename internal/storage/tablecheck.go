package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// CheckTables reads every block of the tables that hold keys of a keyspace from
// the file system, past the block cache, and compares the checksums. It returns
// what is damaged, by file; errors are those of the file system and of ctx. A
// table also holds keys of neighbouring keyspaces: damage among those counts.
func (e *Engine) CheckTables(ctx context.Context, id Ident) (damaged []string, err error) {
	b, n := rangeBounds(nil, id, nil, nil)
	levels, err := e.db.SSTables(pebble.WithKeyRangeFilter(b[:n], b[n:]))
	if err != nil {
		return nil, mapError(err)
	}
	o := e.pebbleOptions(e.opts.FS)
	o.EnsureDefaults()
	read := o.MakeReaderOptions()
	seen := map[string]bool{}
	for _, tables := range levels {
		for i := range tables {
			name := tables[i].BackingSSTNum.String() + ".sst"
			if seen[name] {
				continue // another part of the same file
			}
			seen[name] = true
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			err := e.checkTable(ctx, name, read)
			switch {
			case pebble.IsCorruptionError(err), errors.Is(err, ErrCorruption):
				damaged = append(damaged, fmt.Sprintf("%s: %v", name, err))
			case oserror.IsNotExist(err) && !e.listsTable(name):
				// A compaction has read all of it and put another in its place.
			case err != nil:
				return nil, err
			}
		}
	}
	return damaged, nil
}

// checkTable reads one table without the block cache.
func (e *Engine) checkTable(ctx context.Context, name string, o sstable.ReaderOptions) error {
	f, err := e.opts.FS.Open(e.opts.FS.PathJoin(e.opts.Dir, name))
	if err != nil {
		return err
	}
	file, err := sstable.NewSimpleReadable(f)
	if err != nil {
		f.Close()
		return err
	}
	r, err := sstable.NewReader(ctx, file, o)
	if err != nil {
		file.Close()
		return err
	}
	err = r.ValidateBlockChecksums()
	if err == nil {
		err = checkFooter(ctx, file, r)
	}
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	return err
}

// Footers without a checksum of their own: the type of the checksums, two block
// handles filled up with zeros, then version and magic number.
const (
	plainFooterBytes = 53
	plainFooterFill  = 41 // where the fill ends
)

// checkFooter checks the zeros of a footer without a checksum, which no reader
// looks at. All else in it is needed to find the blocks.
func checkFooter(ctx context.Context, file objstorage.Readable, r *sstable.Reader) error {
	l, err := r.Layout()
	if err != nil {
		return err
	}
	if l.Footer.Length != plainFooterBytes {
		return nil
	}
	var b [plainFooterBytes]byte
	if err := file.ReadAt(ctx, b[:], int64(l.Footer.Offset)); err != nil {
		return err
	}
	at := 1
	for range 4 { // offset and length, twice
		_, n := binary.Uvarint(b[at:])
		at += max(n, 0)
	}
	for ; at < plainFooterFill; at++ {
		if b[at] != 0 {
			return fmt.Errorf("%w: the footer has %#x at offset %d, which must be 0", ErrCorruption, b[at], l.Footer.Offset+uint64(at))
		}
	}
	return nil
}

// listsTable says whether the store still needs a table.
func (e *Engine) listsTable(name string) bool {
	levels, err := e.db.SSTables()
	if err != nil {
		return true
	}
	for _, tables := range levels {
		for i := range tables {
			if tables[i].BackingSSTNum.String()+".sst" == name {
				return true
			}
		}
	}
	return false
}
