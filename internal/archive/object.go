package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/variant"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// groupRows is how many rows a row group has: what a reader that looks for a few reads at least,
// and what a writer has in memory. A variable for tests.
var groupRows int64 = 16_384

// bloomBits are the bits of a filter for each value: one of a hundred that are not there
// seems to be.
const bloomBits = 10

// Zstd compresses objects, at the level that costs half of the default's time, and leaves a tenth more
// bytes. It is a variable as its pools have channels of the synctest bubble in which they were made.
var Zstd = zstd.Codec{Level: zstd.SpeedFastest}

// Document is one that is archived.
type Document struct {
	// Date is the one from which its rule counts, in milliseconds since 1970.
	Date int64
	Doc  bson.Doc
}

// Header is what the rows of an object have in common.
type Header struct {
	Namespace string
	Rule      string
	ExpiredAt int64    // in milliseconds since 1970
	Fields    []string // paths with columns of their own
}

// Written is what Write has written.
type Written struct {
	Rows, Bytes int64
	SHA256      string // in hexadecimal
	// From and Until are the first and the last date.
	From, Until int64
	// Parts are the row groups, as they follow one another, and then the rest of the file: filters,
	// statistics and the footer. nil for those of an object that is read as a whole only.
	Parts []Part
}

// columns are the numbers of the columns of an object.
type columns struct {
	schema                          *parquet.Schema
	id, bson, date, expiredAt, rule int
	metadata, value                 int
	fields                          []int
	paths                           [][]string
	count                           int
	expired                         bool // there are date, expiredAt and rule
}

// newColumns makes the columns of documents, with those about their expiry if expired is set.
func newColumns(fields []string, expired bool) *columns {
	g := parquet.Group{
		"_id":  parquet.String(),
		"bson": parquet.Leaf(parquet.ByteArrayType),
		"doc":  parquet.Variant(),
	}
	if expired {
		g["date"], g["expiredAt"] = parquet.Timestamp(parquet.Millisecond), parquet.Timestamp(parquet.Millisecond)
		g["rule"] = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	}
	for _, f := range fields {
		g[f] = parquet.Optional(parquet.String())
	}
	c := &columns{schema: parquet.NewSchema("archive", g), expired: expired}
	at := func(path ...string) int {
		l, _ := c.schema.Lookup(path...)
		return l.ColumnIndex
	}
	c.id, c.bson, c.date, c.expiredAt, c.rule = at("_id"), at("bson"), at("date"), at("expiredAt"), at("rule")
	c.metadata, c.value = at("doc", "metadata"), at("doc", "value")
	for _, f := range fields {
		c.fields = append(c.fields, at(f))
		c.paths = append(c.paths, strings.Split(f, "."))
	}
	c.count = len(c.schema.Columns())
	return c
}

// Write writes an object with the documents, which it puts in the order of their dates.
func Write(w io.Writer, h Header, docs []Document) (Written, error) {
	slices.SortStableFunc(docs, func(a, b Document) int {
		switch {
		case a.Date < b.Date:
			return -1
		case a.Date > b.Date:
			return 1
		}
		return 0
	})
	sum := sha256.New()
	counted := &counting{w: io.MultiWriter(w, sum)}
	c := newColumns(h.Fields, true)
	blooms := []parquet.BloomFilterColumn{parquet.SplitBlockFilter(bloomBits, "_id")}
	for _, f := range h.Fields {
		blooms = append(blooms, parquet.SplitBlockFilter(bloomBits, f))
	}
	out := parquet.NewWriter(counted, c.schema, parquet.Compression(&Zstd), parquet.MaxRowsPerRowGroup(groupRows),
		parquet.BloomFilters(blooms...), parquet.DeferBloomFiltersWithBuffers(parquet.NewBufferPool()), parquet.SkipPageBounds("bson"), parquet.SkipPageBounds("doc", "value"), parquet.SkipPageBounds("doc", "metadata"),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending("date"))),
		parquet.CreatedBy("mayfly", "", ""), parquet.KeyValueMetadata("mayfly.namespace", h.Namespace), parquet.KeyValueMetadata("mayfly.rule", h.Rule))
	row := rowWriter{c: c, h: h}
	for _, d := range docs {
		if err := row.set(d); err != nil {
			return Written{}, err
		}
		if _, err := out.WriteRows([]parquet.Row{row.row}); err != nil {
			return Written{}, err
		}
	}
	out.SetKeyValueMetadata(inexactKey, strings.Join(row.inexact(), "\n"))
	if err := out.Close(); err != nil {
		return Written{}, err
	}
	done := Written{Rows: int64(len(docs)), Bytes: counted.n, SHA256: hex.EncodeToString(sum.Sum(nil))}
	if len(docs) > 0 {
		done.From, done.Until = docs[0].Date, docs[len(docs)-1].Date
	}
	return done, nil
}

// rowWriter makes the rows of an object, one after the other in the same memory.
type rowWriter struct {
	c       *columns
	h       Header
	row     parquet.Row
	builder variant.Builder
	text    []byte
	// loose says of which columns the text may be another than that of an equal value: of _id, and of
	// the fields.
	loose   bool
	looseAt []bool
}

func (w *rowWriter) set(d Document) error {
	c := w.c
	if w.row == nil {
		w.row, w.looseAt = make(parquet.Row, c.count), make([]bool, len(c.paths))
	}
	w.builder.Reset()
	appendVariant(&w.builder, d.Doc)
	metadata, value, err := w.builder.Finish()
	if err != nil {
		return err
	}
	put := func(at int, v parquet.Value) { w.row[at] = v.Level(0, 0, at) }
	named := d.Doc.Lookup("_id")
	w.loose = w.loose || inexact(named)
	w.text = named.AppendJSON(w.text[:0], bson.CanonicalJSON)
	id := len(w.text)
	for i, path := range c.paths {
		from := len(w.text)
		v, array := at(d.Doc, path)
		w.looseAt[i] = w.looseAt[i] || array || inexact(v)
		if v.IsMissing() {
			w.row[c.fields[i]] = parquet.NullValue().Level(0, 0, c.fields[i])
			continue
		}
		w.text = appendPlain(w.text, v)
		w.row[c.fields[i]] = parquet.ByteArrayValue(w.text[from:]).Level(0, 1, c.fields[i])
	}
	put(c.id, parquet.ByteArrayValue(w.text[:id]))
	put(c.bson, parquet.ByteArrayValue(d.Doc))
	if c.expired {
		put(c.date, parquet.Int64Value(d.Date))
		put(c.expiredAt, parquet.Int64Value(w.h.ExpiredAt))
		put(c.rule, parquet.ByteArrayValue([]byte(w.h.Rule)))
	}
	put(c.metadata, parquet.ByteArrayValue(metadata))
	put(c.value, parquet.ByteArrayValue(value))
	return nil
}

// at returns the value at a path of documents; Missing where there is none, and array where one is in
// the way.
func at(d bson.Doc, path []string) (v bson.Value, array bool) {
	v = bson.Document(d)
	for _, name := range path {
		if v.Type != bson.TypeDocument {
			return bson.Value{}, v.Type == bson.TypeArray
		}
		v = v.Doc().Lookup(name)
	}
	return v, false
}

// appendPlain appends a value as text: strings as they are, ObjectIds as 24 digits, the rest as
// relaxed Extended JSON.
func appendPlain(dst []byte, v bson.Value) []byte {
	switch v.Type {
	case bson.TypeString:
		return append(dst, strings.ToValidUTF8(v.Str(), replacement)...)
	case bson.TypeObjectID:
		const digits = "0123456789abcdef"
		for _, b := range v.ObjectID() {
			dst = append(dst, digits[b>>4], digits[b&15])
		}
		return dst
	}
	return v.AppendJSON(dst, bson.RelaxedJSON)
}

// counting counts the bytes that are written.
type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// Day is the day of a date as the path of an object has it.
func Day(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }

// Documents calls f with each document of an object, in the order of the dates, until f returns
// false. What f gets is valid until the next call.
func Documents(file io.ReaderAt, size int64, f func(bson.Doc) (bool, error)) error {
	p, err := parquet.OpenFile(file, size)
	if err != nil {
		return err
	}
	l, ok := p.Schema().Lookup("bson")
	if !ok {
		return errNoObject
	}
	var values [64]parquet.Value
	for _, g := range p.RowGroups() {
		more, err := eachValue(g.ColumnChunks()[l.ColumnIndex].Pages(), values[:], f)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// Dated calls f with each document of an object and its date, as Documents does.
func Dated(file io.ReaderAt, size int64, f func(Document) error) error {
	p, err := parquet.OpenFile(file, size)
	if err != nil {
		return err
	}
	docs, ok := p.Schema().Lookup("bson")
	at, dated := p.Schema().Lookup("date")
	if !ok || !dated {
		return errNoObject
	}
	var values [64]parquet.Value
	for _, g := range p.RowGroups() {
		var dates []int64
		err := eachOf(g.ColumnChunks()[at.ColumnIndex].Pages(), values[:], func(v parquet.Value) (bool, error) {
			dates = append(dates, v.Int64())
			return true, nil
		})
		if err != nil {
			return err
		}
		n := 0
		_, err = eachValue(g.ColumnChunks()[docs.ColumnIndex].Pages(), values[:], func(d bson.Doc) (bool, error) {
			if n == len(dates) {
				return false, errNoObject
			}
			n++
			return true, f(Document{Date: dates[n-1], Doc: d})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Fields are the paths that have columns of their own in an object.
func Fields(file io.ReaderAt, size int64) (fields []string, err error) {
	p, err := parquet.OpenFile(file, size)
	if err != nil {
		return nil, err
	}
	for _, c := range p.Schema().Fields() {
		if !slices.Contains(schema.ArchiveColumns, c.Name()) {
			fields = append(fields, c.Name())
		}
	}
	return fields, nil
}

// errOther says that an object does not have the documents that it was given.
var errOther = errors.New("the object that was written has other documents")

// Check reads an object that Write has written, compares its documents byte for byte, and notes its
// parts.
func (w *Written) Check(file io.ReaderAt, docs []Document) (err error) {
	if w.Parts, err = partsOf(file, w.Bytes); err != nil {
		return err
	}
	n := 0
	err = Documents(file, w.Bytes, func(d bson.Doc) (bool, error) {
		if n++; n > len(docs) || !bytes.Equal(docs[n-1].Doc, d) {
			return false, errOther
		}
		return true, nil
	})
	if err == nil && n != len(docs) {
		return errOther
	}
	return err
}

// eachValue calls f with the values of pages, which it closes.
func eachValue(pages parquet.Pages, values []parquet.Value, f func(bson.Doc) (bool, error)) (more bool, err error) {
	more = true
	err = eachOf(pages, values, func(v parquet.Value) (bool, error) {
		d := bson.Doc(v.ByteArray())
		err := bson.Validate(d, bson.MaxMessageDepth)
		if err == nil {
			more, err = f(d)
		}
		return more, err
	})
	return more, err
}

// eachOf calls f with the values of pages, which it closes, until f returns false.
func eachOf(pages parquet.Pages, values []parquet.Value, f func(parquet.Value) (more bool, err error)) error {
	defer pages.Close()
	for {
		page, err := pages.ReadPage()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for r := page.Values(); ; {
			n, err := r.ReadValues(values)
			for _, v := range values[:n] {
				if more, err := f(v); err != nil || !more {
					parquet.Release(page)
					return err
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
		}
		parquet.Release(page)
	}
}
