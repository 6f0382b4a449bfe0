package archive

import (
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Table writes documents to a Parquet file with the columns of an object, but for those about
// expiry: _id, doc, bson, and fields. (Documents reads it.)
type Table struct {
	out interface {
		parquet.RowWriter
		Flush() error
		Close() error
	}
	row   rowWriter
	bytes int // of the documents of the row group that is written
}

// groupBytes bounds the documents of a row group, of which a writer has each one twice in memory, and a
// reader some columns. A variable for tests.
var groupBytes = 64 << 20

// NewTable begins a file. Fields are paths that have columns of their own.
func NewTable(w io.Writer, fields []string) *Table {
	c := newColumns(fields, false)
	out := parquet.NewWriter(w, c.schema, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(groupRows),
		parquet.SkipPageBounds("bson"), parquet.SkipPageBounds("doc", "value"), parquet.SkipPageBounds("doc", "metadata"), parquet.CreatedBy("mayfly", "", ""))
	return &Table{out: out, row: rowWriter{c: c}}
}

// Write appends a document.
func (t *Table) Write(d bson.Doc) error {
	if err := t.row.set(Document{Doc: d}); err != nil {
		return err
	}
	if _, err := t.out.WriteRows([]parquet.Row{t.row.row}); err != nil {
		return err
	}
	if t.bytes += len(d); t.bytes < groupBytes {
		return nil
	}
	t.bytes = 0
	return t.out.Flush()
}

// Close writes what is left.
func (t *Table) Close() error { return t.out.Close() }
