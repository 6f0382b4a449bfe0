package docfile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mayflydb/mayfly/internal/bson"
)

// csvRows reads CSV as mongoimport does. (Manual: mongoimport.)
type csvRows struct {
	in      *csv.Reader
	bounded *boundedReader
	columns *columns
	blanks  bool // an empty text is a field
	values  []bson.Value
}

// boundedReader fails where more is read than a row may have, before there was one.
type boundedReader struct {
	in   io.Reader
	left int
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("longer than %d bytes", maxLine)
	}
	n, err := r.in.Read(p)
	r.left -= n
	return n, err
}

// newCSVRows reads the line with the columns if there is one.
func newCSVRows(in *bufio.Reader, o Options) (*csvRows, error) {
	if mark, err := in.Peek(len(byteOrderMark)); err == nil && string(mark) == byteOrderMark {
		if _, err := in.Discard(len(mark)); err != nil {
			return nil, err
		}
	}
	r := &csvRows{bounded: &boundedReader{in: in, left: maxLine}, blanks: !o.IgnoreBlanks}
	r.in = csv.NewReader(r.bounded)
	r.in.FieldsPerRecord, r.in.TrimLeadingSpace, r.in.ReuseRecord = -1, true, true
	names := o.Fields
	if o.HeaderLine {
		var err error
		if names, err = r.in.Read(); err != nil {
			return nil, fmt.Errorf("line 1, which has the columns: %w", err)
		}
	}
	var err error
	r.columns, err = newColumns(names, o.Types)
	return r, err
}

// next reads a row.
func (r *csvRows) next() (doc bson.Doc, place string, err error) {
	r.bounded.left = maxLine
	row, err := r.in.Read()
	if errors.Is(err, io.EOF) {
		return nil, "the end", nil
	}
	if failed := new(csv.ParseError); errors.As(err, &failed) {
		return nil, fmt.Sprintf("line %d", failed.StartLine), failed.Err
	}
	if err != nil {
		return nil, fmt.Sprintf("byte %d", r.in.InputOffset()), err
	}
	line, _ := r.in.FieldPos(0)
	place = fmt.Sprintf("line %d", line)
	r.values = append(r.values[:0], make([]bson.Value, len(r.columns.names))...)
	for i, text := range row {
		if !utf8.ValidString(text) {
			return nil, place, errNotUTF8
		}
		if i >= len(r.values) || text == "" && !r.blanks {
			continue
		}
		if r.values[i], err = r.columns.parse[i](text); err != nil {
			return nil, place, fmt.Errorf("the column %q has %q: %w", r.columns.names[i], text, err)
		}
	}
	var more []string
	if len(row) > len(r.values) {
		more = row[len(r.values):]
	}
	return r.columns.document(r.values, more), place, nil
}

// csvWriter writes CSV as mongoexport does. (Manual: mongoexport.)
type csvWriter struct {
	out    *csv.Writer
	fields [][]string
	row    []string
}

func newCSVWriter(out io.Writer, o Options) (*csvWriter, error) {
	w := &csvWriter{out: csv.NewWriter(out)}
	for _, name := range o.Fields {
		w.fields = append(w.fields, strings.Split(name, "."))
	}
	if o.NoHeaderLine {
		return w, nil
	}
	return w, w.out.Write(o.Fields)
}

func (w *csvWriter) write(doc bson.Doc) error {
	w.row = w.row[:0]
	for _, path := range w.fields {
		text := csvText(lookup(doc, path))
		if !utf8.ValidString(text) {
			return notUTF8(doc)
		}
		w.row = append(w.row, text)
	}
	return w.out.Write(w.row)
}

func (w *csvWriter) finish() error {
	w.out.Flush()
	return w.out.Error()
}

// lookup is the value at a path, of arrays by an index.
func lookup(doc bson.Doc, path []string) bson.Value {
	v := bson.Document(doc)
	for _, name := range path {
		if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
			return bson.Value{}
		}
		v = v.Doc().Lookup(name) // the names within an array are its indexes
	}
	return v
}

// csvText is a value as mongoexport writes it, documents and arrays as extended JSON v2.
func csvText(v bson.Value) string {
	switch v.Type {
	case bson.Missing, bson.TypeNull:
		return ""
	case bson.TypeString, bson.TypeSymbol, bson.TypeCode:
		return v.Str()
	case bson.TypeInt32:
		return strconv.FormatInt(int64(v.Int32()), 10)
	case bson.TypeInt64:
		return strconv.FormatInt(v.Int64(), 10)
	case bson.TypeDouble:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	case bson.TypeDecimal:
		return v.Decimal().String()
	case bson.TypeBool:
		return strconv.FormatBool(v.Bool())
	case bson.TypeObjectID:
		return fmt.Sprintf("ObjectId(%x)", v.ObjectID())
	case bson.TypeDate:
		if t := time.UnixMilli(v.Date()).UTC(); t.Year() >= 0 && t.Year() <= 9999 {
			return t.Format("2006-01-02T15:04:05.000Z")
		}
	case bson.TypeBinary:
		_, content := v.Binary()
		return fmt.Sprintf("%X", content)
	case bson.TypeRegex:
		pattern, options := v.Regex()
		return "/" + pattern + "/" + options
	}
	return string(v.AppendJSON(nil, bson.CanonicalJSON))
}
