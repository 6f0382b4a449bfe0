package docfile

import (
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/bson"
)

// parquetRows reads the rows of a Parquet file: the documents as they were where it has a column
// bson, as files that Mayfly has written, else a document of the columns.
type parquetRows struct {
	pull func() (bson.Doc, error, bool)
	stop func()
	at   int64
}

// newParquetRows opens a file. Errors: a type of a column that no document has.
func newParquetRows(file *os.File) (r *parquetRows, err error) {
	defer recoverDamage(&err)
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	p, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return nil, err
	}
	var rows iter.Seq2[bson.Doc, error]
	if c := p.Root().Column("bson"); c != nil && c.Leaf() && c.Type().Kind() == parquet.ByteArray {
		rows = func(yield func(bson.Doc, error) bool) {
			if err := archive.Documents(file, info.Size(), func(d bson.Doc) (bool, error) { return yield(d.Clone(), nil), nil }); err != nil {
				yield(nil, err)
			}
		}
	} else {
		t, err := newTable(p.Root())
		if err != nil {
			return nil, err
		}
		rows = t.rows(p)
	}
	r = &parquetRows{}
	r.pull, r.stop = iter.Pull2(rows)
	return r, nil
}

// Close ends the reading.
func (r *parquetRows) Close() error {
	r.stop()
	return nil
}

func (r *parquetRows) next() (doc bson.Doc, place string, err error) {
	defer recoverDamage(&err)
	r.at++
	place = fmt.Sprintf("row %d", r.at)
	doc, err, more := r.pull()
	if !more || err != nil {
		return nil, place, err
	}
	return doc, place, nil
}

// recoverDamage makes an error of a panic: that is how the library meets some damage of files.
func recoverDamage(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("not Parquet, or damaged: %v", p)
	}
}

// rows are the rows of a file.
func (t *table) rows(p *parquet.File) iter.Seq2[bson.Doc, error] {
	return func(yield func(bson.Doc, error) bool) {
		for _, g := range p.RowGroups() {
			if !t.rowsOf(g, yield) {
				return
			}
		}
	}
}

// rowsOf yields the rows of a row group until there are no more to be yielded.
func (t *table) rowsOf(g parquet.RowGroup, yield func(bson.Doc, error) bool) bool {
	rows := g.Rows()
	defer rows.Close()
	var buffer [64]parquet.Row
	for {
		n, err := rows.ReadRows(buffer[:])
		for _, row := range buffer[:n] {
			if !yield(t.document(row)) {
				return false
			}
		}
		if err == io.EOF {
			return true
		}
		if err != nil {
			return yield(nil, err)
		}
	}
}

// parquetWriter writes documents as archives have them.
type parquetWriter struct{ *archive.Table }

func newParquetWriter(out io.Writer, o Options) (parquetWriter, error) {
	for i, name := range o.Fields {
		if slices.Contains([]string{"_id", "doc", "bson"}, name) || slices.Contains(o.Fields[:i], name) {
			return parquetWriter{}, fmt.Errorf("there is a column %q already", name)
		}
	}
	return parquetWriter{archive.NewTable(out, o.Fields)}, nil
}

func (w parquetWriter) write(doc bson.Doc) error { return w.Write(doc) }

func (w parquetWriter) finish() error { return w.Close() }
