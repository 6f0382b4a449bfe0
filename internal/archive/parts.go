package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/objectstore"
)

// A row has a sum of each part of its object, so that some can be read and believed without the rest:
// the last, which has filters and statistics, and then the row groups that may have what is asked for.

// Part is a part of an object.
type Part struct {
	Bytes  int64
	SHA256 [sha256.Size]byte
}

// inexactKey is the key of the metadata with the columns, a line each, in which a value that is equal
// to another one may have another text.
const inexactKey = "mayfly.inexact"

// inexact reports whether a value may be equal to one of another type, of which the text is another: a
// decimal, a symbol, an array that has it.
func inexact(v bson.Value) bool {
	switch v.Type {
	case bson.TypeArray, bson.TypeDecimal, bson.TypeSymbol:
		return true
	}
	return false
}

// inexact are the columns of which that is so.
func (w *rowWriter) inexact() (names []string) {
	if w.loose {
		names = append(names, "_id")
	}
	for i, path := range w.c.paths {
		if w.looseAt != nil && w.looseAt[i] {
			names = append(names, strings.Join(path, "."))
		}
	}
	return names
}

// partsOf reads the parts of an object.
func partsOf(file io.ReaderAt, size int64) (parts []Part, err error) {
	p, err := parquet.OpenFile(file, size)
	if err != nil {
		return nil, err
	}
	at := int64(0)
	add := func(upTo int64) error {
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(file, at, upTo-at)); err != nil {
			return err
		}
		parts = append(parts, Part{upTo - at, [sha256.Size]byte(sum.Sum(nil))})
		at = upTo
		return nil
	}
	for _, g := range p.Metadata().RowGroups {
		end := at
		for _, c := range g.Columns {
			first := c.MetaData.DataPageOffset
			if d := c.MetaData.DictionaryPageOffset; d > 0 {
				first = min(first, d)
			}
			end = max(end, first+c.MetaData.TotalCompressedSize)
		}
		if err := add(end); err != nil {
			return nil, err
		}
	}
	return parts, add(size)
}

// parseParts reads the parts of a row; nil for what are none of so many bytes.
func parseParts(v bson.Value, size int64) (parts []Part) {
	if v.Type != bson.TypeArray {
		return nil
	}
	sum := int64(0)
	for v := range v.Doc().Values() {
		if v.Type != bson.TypeDocument {
			return nil
		}
		bytes, hash := v.Doc().Lookup("bytes"), v.Doc().Lookup("sha256")
		if bytes.Type != bson.TypeInt64 || hash.Type != bson.TypeBinary || bytes.Int64() < 0 {
			return nil
		}
		_, content := hash.Binary()
		if len(content) != sha256.Size {
			return nil
		}
		parts = append(parts, Part{bytes.Int64(), [sha256.Size]byte(content)})
		sum += bytes.Int64()
	}
	if sum != size {
		return nil
	}
	return parts
}

// Partly is an object of which parts are read.
type Partly struct {
	s      objectstore.Store
	row    *Row
	parts  map[int]*bytes.Reader // that were read, by their numbers
	file   *parquet.File
	groups []parquet.RowGroup
}

// OpenPartly reads the last part of the object of a row that has parts.
func OpenPartly(ctx context.Context, s objectstore.Store, r *Row) (p *Partly, err error) {
	p = &Partly{s: s, row: r, parts: map[int]*bytes.Reader{}}
	if err := p.read(ctx, len(r.Parts)-1); err != nil {
		return nil, err
	}
	if p.file, err = parquet.OpenFile(p, r.Bytes, parquet.SkipMagicBytes(true)); err != nil {
		return nil, err
	}
	if p.groups = p.file.RowGroups(); len(p.groups) != len(r.Parts)-1 {
		return nil, errNoObject
	}
	return p, nil
}

// read reads a part, and checks it (invariant nothing-guessed).
func (p *Partly) read(ctx context.Context, n int) error {
	part, from := p.row.Parts[n], int64(0)
	for _, before := range p.row.Parts[:n] {
		from += before.Bytes
	}
	content, err := read(ctx, p.s, p.row.Path, part.Bytes, func(ctx context.Context) ([]byte, error) { return p.fetch(ctx, part, from) })
	if err != nil {
		return err
	}
	p.parts[n] = bytes.NewReader(content)
	return nil
}

// fetch reads a part that begins there.
func (p *Partly) fetch(ctx context.Context, part Part, from int64) ([]byte, error) {
	in, err := p.s.GetRange(ctx, p.row.Path, from, part.Bytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &DamageError{p.s.String(), p.row.Path, "it is not there"}
	}
	if err != nil {
		return nil, fmt.Errorf("%s could not be read in %s: %w", p.row.Path, p.s, ended(ctx, err))
	}
	content := make([]byte, part.Bytes)
	_, err = io.ReadFull(in, content)
	_ = in.Close() // what was read is compared
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return nil, &DamageError{p.s.String(), p.row.Path, "it has another size"}
	case err != nil:
		return nil, fmt.Errorf("%s could not be read in %s: %w", p.row.Path, p.s, ended(ctx, err))
	case sha256.Sum256(content) != part.SHA256:
		return nil, &DamageError{p.s.String(), p.row.Path, "a part of it has another SHA-256"}
	}
	return content, nil
}

// ReadAt implements io.ReaderAt for the parts that were read.
func (p *Partly) ReadAt(b []byte, at int64) (int, error) {
	from := int64(0)
	for n, part := range p.row.Parts {
		if at < from+part.Bytes || n == len(p.row.Parts)-1 {
			if r := p.parts[n]; r != nil {
				return r.ReadAt(b, at-from)
			}
			break
		}
		from += part.Bytes
	}
	return 0, fmt.Errorf("the part of %s at %d was not read", p.row.Path, at)
}

// Groups returns the numbers of the row groups that may have a document that matches, and how many
// bytes they have.
func (p *Partly) Groups(b Bounds) (numbers []int, size int64, err error) {
	loose, _ := p.file.Lookup(inexactKey)
	for n, g := range p.groups {
		may, err := b.mayHaveGroup(p.row, p.file, g, strings.Split(loose, "\n"))
		if err != nil {
			return nil, 0, err
		}
		if may {
			numbers = append(numbers, n)
			size += p.row.Parts[n].Bytes
		}
	}
	return numbers, size, nil
}

// Documents reads a row group, and calls f as the function Documents does.
func (p *Partly) Documents(ctx context.Context, group int, f func(bson.Doc) (bool, error)) error {
	if err := p.read(ctx, group); err != nil {
		return err
	}
	defer delete(p.parts, group)
	l, ok := p.file.Schema().Lookup("bson")
	if !ok {
		return errNoObject
	}
	var values [64]parquet.Value
	_, err := eachValue(p.groups[group].ColumnChunks()[l.ColumnIndex].Pages(), values[:], f)
	return err
}

// mayHaveGroup is MayHave for a row group of the object; loose are its inexact columns.
func (b Bounds) mayHaveGroup(r *Row, file *parquet.File, g parquet.RowGroup, loose []string) (bool, error) {
	chunks := g.ColumnChunks()
	if s, ok := b.at[r.Key]; ok && !r.Arrays {
		l, ok := file.Schema().Lookup("date")
		c, isFile := chunks[l.ColumnIndex].(*parquet.FileColumnChunk)
		if ok && isFile {
			if least, most, known := c.Bounds(); known && (s.from > most.Int64() || s.to < least.Int64()) {
				return false, nil
			}
		}
	}
	for path, values := range b.equal {
		l, ok := file.Schema().Lookup(path)
		if !ok || slices.Contains(loose, path) {
			continue
		}
		filter := chunks[l.ColumnIndex].BloomFilter()
		if filter == nil {
			continue
		}
		may := false
		for _, v := range values {
			for _, text := range texts(path, v) {
				found, err := filter.Check(parquet.ByteArrayValue(text))
				if err != nil {
					return false, err
				}
				may = may || found
			}
		}
		if !may {
			return false, nil
		}
	}
	return true, nil
}

// Narrow reports whether it may spare bytes to read the object of a row in parts.
func (b Bounds) Narrow(r *Row) bool {
	if len(r.Parts) < 2 {
		return false
	}
	s, ok := b.at[r.Key]
	return len(b.equal) > 0 || ok && !r.Arrays && (s.from > r.From || s.to < r.Until)
}

// maxExact is up to where all integers are doubles.
const maxExact = 1 << 53

// findable reports whether texts are all that the column of a value that is equal to v may have, but
// where it is inexact.
func findable(v bson.Value) bool {
	switch v.Type {
	case bson.TypeString:
		return utf8.ValidString(v.Str())
	case bson.TypeObjectID, bson.TypeBool, bson.TypeDate, bson.TypeInt32:
		return true
	case bson.TypeBinary:
		return true
	case bson.TypeInt64:
		return v.Int64() < maxExact && v.Int64() > -maxExact
	case bson.TypeDouble:
		f := v.Double()
		return f != 0 && math.Abs(f) < maxExact
	}
	return false
}

// texts are those that the column of a value that is equal to v may have. REQUIRES in words: findable.
func texts(path string, v bson.Value) (all [][]byte) {
	add := func(v bson.Value) {
		if path == "_id" {
			all = append(all, v.AppendJSON(nil, bson.CanonicalJSON))
		} else {
			all = append(all, appendPlain(nil, v))
		}
	}
	n, whole := int64(0), false
	switch v.Type {
	case bson.TypeInt32:
		n, whole = int64(v.Int32()), true
	case bson.TypeInt64:
		n, whole = v.Int64(), true
	case bson.TypeDouble:
		n = int64(v.Double())
		whole = float64(n) == v.Double()
	}
	if !whole {
		add(v)
		return all
	}
	if n == int64(int32(n)) {
		add(bson.Int32(int32(n)))
	}
	add(bson.Int64(n))
	add(bson.Double(float64(n)))
	if n == 0 {
		add(bson.Double(math.Copysign(0, -1)))
	}
	return all
}
