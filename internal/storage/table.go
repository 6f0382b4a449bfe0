package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The footer of a table: the type of the checksums, two block handles filled up with
// zeros, version, magic number. No checksum covers it.
const (
	footerBytes   = 53
	footerFill    = 41 // where the fill ends
	footerVersion = 41
	footerMagic   = 45
	tableMagic    = "\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3"
	// tableVersion is the version of tables in pebbleFormat; no store has others.
	tableVersion = 5

	tableSuffix = ".sst"
)

// footer has the positions of a table's index and metadata blocks.
type footer struct{ meta, index block.Handle }

// checkFooter checks all bits of a footer except those of the handles, which block
// checksums cover, since what they name must be a block. Pebble would read a table
// by the version in the footer, and so find other keys. The error is ErrCorruption.
func checkFooter(f vfs.File, name string) (at footer, err error) {
	info, err := f.Stat()
	if err != nil {
		return at, err
	}
	begin := info.Size() - footerBytes
	bad := func(i int, format string, args ...any) error {
		return &tableError{name, max(0, begin) + int64(i), fmt.Sprintf(format, args...)}
	}
	if begin < 0 {
		return at, bad(0, "the file is too short for a table, %d bytes", info.Size())
	}
	b := make([]byte, footerBytes)
	if _, err := f.ReadAt(b, begin); err != nil {
		return at, err
	}
	if string(b[footerMagic:]) != tableMagic {
		return at, bad(footerMagic, "the footer has magic number %x, which must be %x", b[footerMagic:], tableMagic)
	}
	if v := binary.LittleEndian.Uint32(b[footerVersion:]); v != tableVersion {
		return at, bad(footerVersion, "the footer has version %d, which must be %d", v, tableVersion)
	}
	if b[0] != byte(block.ChecksumTypeCRC32c) {
		return at, bad(0, "the footer has checksum type %d, which must be %d", b[0], block.ChecksumTypeCRC32c)
	}
	var n, m int
	if at.meta, n = block.DecodeHandle(b[1:footerFill]); n > 0 {
		at.index, m = block.DecodeHandle(b[1+n : footerFill])
	}
	if m == 0 {
		return at, bad(1, "the footer has no block handles")
	}
	for i := 1 + n + m; i < footerFill; i++ {
		if b[i] != 0 {
			return at, bad(i, "the footer has padding %#x, which must be 0", b[i])
		}
	}
	return at, nil
}

// tableError is damage that was found in a table, or in what is sealed of another file. It is an ErrCorruption, for Pebble too.
type tableError struct {
	name   string
	offset int64
	what   string
}

// corruption converts Pebble's error about a damaged table.
func corruption(err error) error {
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return corruptionOf(info)
	}
	return fmt.Errorf("%w: %w", ErrCorruption, err)
}

func corruptionOf(info *pebble.DataCorruptionInfo) error {
	var known *tableError
	if errors.As(info.Details, &known) {
		return known
	}
	what, offset := info.Details.Error(), int64(0)
	if m := blockOffset.FindStringSubmatch(what); m != nil {
		offset, _ = strconv.ParseInt(m[1], 10, 64)
	}
	return asDamage(errors.New(what), filepath.Base(info.Path), offset)
}

// blockOffset finds the offset of a block that Pebble reports as damaged.
var blockOffset = regexp.MustCompile(`block (\d+)/\d+`)

func (e *tableError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s", e.name, e.offset, e.what)
}

func (e *tableError) Unwrap() []error { return []error{ErrCorruption, pebble.ErrCorruption} }

// table is an open table, read past the block cache.
type table struct {
	name string
	r    *sstable.Reader
	at   footer
	size int64
}

// openTable opens a table. Errors: ErrCorruption, and those of the file system.
func openTable(ctx context.Context, fs FS, dir, name string) (*table, error) {
	f, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		return nil, err
	}
	at, err := checkFooter(f, name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	file, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	po := &pebble.Options{Merger: merger}
	po.EnsureDefaults()
	o := po.MakeReaderOptions()
	setNumber(&o.CacheOpts.FileNum, tableNumber(name))
	r, err := sstable.NewReader(ctx, file, o)
	if err != nil {
		return nil, errors.Join(asDamage(err, name, int64(at.meta.Offset)), file.Close())
	}
	return &table{name, r, at, file.Size()}, nil
}

func (t *table) close() error { return t.r.Close() }

// setNumber sets a number whose type is internal to Pebble.
func setNumber[N ~uint64](dst *N, n uint64) { *dst = N(n) }

// tableNumber returns the number in a table's name, or 0.
func tableNumber(name string) (n uint64) {
	if k, err := fmt.Sscanf(name, "%d.sst", &n); err != nil || k != 1 || tableName(n) != name {
		return 0
	}
	return n
}

func tableName(n uint64) string { return fmt.Sprintf("%06d%s", n, tableSuffix) }

// asDamage adds to an error if the table is damaged. Pebble's error about a table that
// it cannot read may not be marked as corruption, and a bad sector of the disk is damage,
// too.
func asDamage(err error, name string, offset int64) error {
	if err == nil || errors.Is(err, context.Canceled) || oserror.IsPermission(err) || oserror.IsNotExist(err) {
		return err
	}
	return &tableError{name, offset, strings.TrimPrefix(err.Error(), "pebble: file "+strings.TrimSuffix(name, tableSuffix)+": ")}
}

// noMetadata is for blocks that are read for their bytes.
func noMetadata(*block.Metadata, []byte) error { return nil }

// read reads a block and checks it, and calls f with its bytes. The error is
// ErrCorruption, or the file system's.
func (t *table) read(ctx context.Context, h block.Handle, f func([]byte) error) error {
	if h.Length > uint64(t.size) || h.Offset > uint64(t.size)-h.Length-block.TrailerLen {
		return &tableError{t.name, int64(h.Offset), fmt.Sprintf("a block of %d bytes ends after the end of the file", h.Length)}
	}
	b, err := t.r.BlockReader().Read(ctx, block.NoReadEnv, nil, h, blockkind.Metadata, noMetadata)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("the file ends early: %v", err)
		}
		return asDamage(err, t.name, int64(h.Offset))
	}
	defer b.Release()
	if f == nil {
		return nil
	}
	return f(b.BlockData())
}

// keyBlock is a block of keys, or of the index, and the last key it may hold.
type keyBlock struct {
	block.Handle
	last []byte
	err  error // why it cannot be read, or nil
}

// index reads a block of the index.
func (t *table) index(ctx context.Context, h block.Handle) (entries []keyBlock, err error) {
	err = t.read(ctx, h, func(b []byte) error {
		var it colblk.IndexIter
		if err := it.Init(pebble.DefaultComparer, b, block.NoTransforms); err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			h, err := it.BlockHandleWithProperties()
			if err != nil {
				return asDamage(err, t.name, int64(h.Offset))
			}
			entries = append(entries, keyBlock{Handle: h.Handle, last: bytes.Clone(it.Separator())})
		}
		return nil
	})
	return entries, err
}

// keyBlocks finds all blocks of keys; where a part of the index cannot be read, it
// returns that part with its error instead. inner are the blocks of the index, if it
// has several levels.
func (t *table) keyBlocks(ctx context.Context) (blocks, inner []keyBlock, err error) {
	top, err := t.index(ctx, t.at.index)
	if err != nil || !t.r.Attributes.Has(sstable.AttributeTwoLevelIndex) {
		return top, nil, err
	}
	for _, part := range top {
		entries, err := t.index(ctx, part.Handle)
		if err != nil && !errors.Is(err, ErrCorruption) {
			return nil, nil, err
		}
		part.err = err
		inner = append(inner, part)
		if err != nil {
			entries = []keyBlock{part}
		}
		blocks = append(blocks, entries...)
	}
	return blocks, inner, nil
}

// check reads every block of the table. It returns what is damaged, and the blocks of
// keys, with their errors; the error is the file system's or ctx's.
func (t *table) check(ctx context.Context) (blocks []keyBlock, damages []Damage, err error) {
	add := func(err error) error {
		var d *tableError
		if !errors.As(err, &d) {
			return err
		}
		damages = append(damages, Damage{d.name, d.offset, d.what})
		return nil
	}
	blocks, inner, err := t.keyBlocks(ctx)
	if err != nil {
		return nil, damages, add(err)
	}
	for i := range blocks {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if blocks[i].err == nil {
			blocks[i].err = t.read(ctx, blocks[i].Handle, nil)
		}
		if err := add(blocks[i].err); err != nil {
			return nil, nil, err
		}
	}
	return blocks, damages, t.checkOthers(ctx, blocks, inner, add)
}

// checkOthers reads the blocks that hold no keys.
func (t *table) checkOthers(ctx context.Context, blocks, inner []keyBlock, add func(error) error) error {
	l, err := t.r.Layout()
	if err != nil {
		// The index can be read, or was reported: so this is the list of the blocks of
		// values, which is after everything known.
		if slices.ContainsFunc(inner, func(b keyBlock) bool { return b.err != nil }) {
			return nil
		}
		end := uint64(0)
		for _, b := range append(blocks, inner...) {
			end = max(end, b.Offset+b.Length+block.TrailerLen)
		}
		return add(asDamage(err, t.name, int64(end)))
	}
	others := append([]block.Handle{l.RangeDel, l.RangeKey, l.ValueIndex, l.Properties, l.MetaIndex}, l.ValueBlock...)
	for _, f := range l.Filter {
		others = append(others, f.Handle)
	}
	for _, h := range others {
		if h.Length == 0 {
			continue
		}
		if err := add(t.read(ctx, h, nil)); err != nil {
			return err
		}
	}
	return nil
}

// checkTable reads every block of a table. The error is the file system's or ctx's.
func checkTable(ctx context.Context, fs FS, dir, name string) ([]Damage, error) {
	t, err := openTable(ctx, fs, dir, name)
	var d *tableError
	if errors.As(err, &d) {
		return []Damage{{d.name, d.offset, d.what}}, nil
	}
	if err != nil {
		return nil, err
	}
	_, damages, err := t.check(ctx)
	return damages, errors.Join(err, t.close())
}

// CheckTables reads every block of the tables that hold keys of a keyspace from
// the file system, past the block cache, and compares the checksums. It returns
// what is damaged; errors are those of the file system and of ctx. A table also
// holds keys of neighbouring keyspaces: damage among those counts.
func (e *Engine) CheckTables(ctx context.Context, id Ident) (damages []Damage, err error) {
	b, n := rangeBounds(nil, id, nil, nil)
	levels, err := e.db.SSTables(pebble.WithKeyRangeFilter(b[:n], b[n:]))
	if err != nil {
		return nil, mapError(err)
	}
	seen := map[string]bool{}
	for _, tables := range levels {
		for i := range tables {
			name := tables[i].BackingSSTNum.String() + tableSuffix
			if seen[name] {
				continue // another part of the same file
			}
			seen[name] = true
			found, err := checkTable(ctx, e.opts.FS, e.opts.Dir, name)
			if oserror.IsNotExist(err) && !e.listsTable(name) {
				continue // a compaction has read all of it and replaced it
			}
			if err != nil {
				return nil, err
			}
			damages = append(damages, found...)
		}
	}
	return damages, nil
}

// listsTable reports whether the store still needs a table.
func (e *Engine) listsTable(name string) bool {
	levels, err := e.db.SSTables()
	if err != nil {
		return true
	}
	for _, tables := range levels {
		for i := range tables {
			if tables[i].BackingSSTNum.String()+tableSuffix == name {
				return true
			}
		}
	}
	return false
}

func isTable(name string) bool { return strings.HasSuffix(name, tableSuffix) }
