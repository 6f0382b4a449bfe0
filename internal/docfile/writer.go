package docfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Writer writes documents to a new file, which has its name once it is durable.
type Writer struct {
	sink
	temp *os.File
	out  *bufio.Writer
	zip  *gzip.Writer // nil where it is not compressed
	path string
}

// sink writes documents in one format.
type sink interface {
	// write appends a document. Errors: one that the format does not keep.
	write(bson.Doc) error
	// finish writes what is left.
	finish() error
}

// Create begins a file, compressed if its name ends with .gz. Errors: os.ErrExist if there is one
// of that name, which stays.
func Create(path string, o Options) (w *Writer, err error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s: %w", path, os.ErrExist)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".unfinished-*")
	if err != nil {
		return nil, err
	}
	w = &Writer{temp: temp, out: bufio.NewWriterSize(temp, 1<<18), path: path}
	out := io.Writer(w.out)
	if strings.HasSuffix(path, compressed) {
		w.zip = gzip.NewWriter(w.out)
		out = w.zip
	}
	switch o.Format {
	case BSON:
		w.sink = bsonWriter{out}
	case CSV:
		w.sink, err = newCSVWriter(out, o)
	case Parquet:
		w.sink, err = newParquetWriter(out, o)
	default:
		w.sink = &jsonWriter{out: out, mode: o.Format == JSONLines}
	}
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

// Write appends a document. Errors: one that the format does not keep.
func (w *Writer) Write(doc bson.Doc) error { return w.write(doc) }

// bsonWriter writes documents one behind the other.
type bsonWriter struct{ out io.Writer }

func (w bsonWriter) write(doc bson.Doc) error {
	_, err := w.out.Write(doc)
	return err
}

func (bsonWriter) finish() error { return nil }

// jsonWriter writes lines of extended JSON.
type jsonWriter struct {
	out  io.Writer
	mode bson.JSONMode
	line []byte
}

func (w *jsonWriter) write(doc bson.Doc) error {
	w.line = append(doc.AppendJSON(w.line[:0], w.mode), '\n')
	if !utf8.Valid(w.line) {
		return notUTF8(doc)
	}
	if w.mode == bson.CanonicalJSON {
		// A document that looks like a type ({$oid: …}) and text that is not UTF-8 come back
		// as something else.
		if back, err := bson.ParseJSON(string(w.line)); err != nil || !bytes.Equal(back, doc) {
			return fmt.Errorf("the document with _id %s is not the same when it is read from JSON: export it as BSON", doc.Lookup("_id"))
		}
	}
	_, err := w.out.Write(w.line)
	return err
}

func (*jsonWriter) finish() error { return nil }

// notUTF8 is the error for a document that only BSON keeps.
func notUTF8(doc bson.Doc) error {
	return fmt.Errorf("the document with _id %s has text that is not UTF-8, which this format cannot have: export it as BSON", doc.Lookup("_id"))
}

// Commit makes the file durable, and gives it its name.
func (w *Writer) Commit() error {
	err := w.finish()
	if w.zip != nil {
		err = errors.Join(err, w.zip.Close())
	}
	err = errors.Join(err, w.out.Flush(), w.temp.Sync(), w.temp.Chmod(0o600))
	if err = errors.Join(err, w.temp.Close()); err != nil {
		return errors.Join(err, os.Remove(w.temp.Name()))
	}
	// A link, as a rename would replace a file that came meanwhile.
	if err = os.Link(w.temp.Name(), w.path); err != nil {
		return fmt.Errorf("the export is whole, in %s: %w", w.temp.Name(), err)
	}
	if err = os.Remove(w.temp.Name()); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(w.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Abort removes what was written.
func (w *Writer) Abort() error { return errors.Join(w.temp.Close(), os.Remove(w.temp.Name())) }
