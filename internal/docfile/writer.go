package docfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Writer writes documents to a new file, which has its name once it is durable.
type Writer struct {
	temp   *os.File
	out    *bufio.Writer
	format Format
	path   string
	line   []byte
}

// Create begins a file. Errors: os.ErrExist if there is one of that name, which stays.
func Create(path string, f Format) (*Writer, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s: %w", path, os.ErrExist)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".unfinished-*")
	if err != nil {
		return nil, err
	}
	return &Writer{temp: temp, out: bufio.NewWriterSize(temp, 1<<18), format: f, path: path}, nil
}

// Write appends a document. Errors: one that canonical JSON does not keep.
func (w *Writer) Write(doc bson.Doc) error {
	if w.format == BSON {
		_, err := w.out.Write(doc)
		return err
	}
	w.line = append(doc.AppendJSON(w.line[:0], w.format == JSONLines), '\n')
	if !utf8.Valid(w.line) {
		return fmt.Errorf("the document with _id %s has text that is not UTF-8, which JSON cannot have: export it as BSON", doc.Lookup("_id"))
	}
	if w.format == JSONLines {
		// A document that looks like a type ({$oid: …}) and text that is not UTF-8 come back
		// as something else.
		if back, err := bson.ParseJSON(string(w.line)); err != nil || !bytes.Equal(back, doc) {
			return fmt.Errorf("the document with _id %s is not the same when it is read from JSON: export it as BSON", doc.Lookup("_id"))
		}
	}
	_, err := w.out.Write(w.line)
	return err
}

// Commit makes the file durable, and gives it its name.
func (w *Writer) Commit() error {
	err := errors.Join(w.out.Flush(), w.temp.Sync(), w.temp.Chmod(0o600))
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
