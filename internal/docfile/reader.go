package docfile

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Reader reads the documents of a file.
type Reader struct {
	source
	place string
	files []io.Closer // in the order in which they were opened
}

// source reads the documents of one format.
type source interface {
	// next is the next document, which belongs to the caller, or nil behind the last, and its
	// place, also where there is an error.
	next() (doc bson.Doc, place string, err error)
}

// Open opens a file. One whose name ends with .gz is decompressed.
func Open(path string, o Options) (r *Reader, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r = &Reader{files: []io.Closer{file}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if o.Format == Parquet {
		rows, err := newParquetRows(file)
		if err == nil {
			r.source, r.files = rows, append(r.files, rows)
		}
		return r, err
	}
	in := io.Reader(file)
	if strings.HasSuffix(path, compressed) {
		unzipped, err := gzip.NewReader(bufio.NewReader(file))
		if err != nil {
			return r, err
		}
		in, r.files = unzipped, append(r.files, unzipped)
	}
	buffered := bufio.NewReaderSize(in, 1<<16)
	switch o.Format {
	case BSON:
		r.source = &bsonDocuments{in: buffered}
	case CSV:
		r.source, err = newCSVRows(buffered, o)
	default:
		r.source = &jsonLines{in: buffered}
	}
	return r, err
}

// Close closes the file.
func (r *Reader) Close() (err error) {
	for _, f := range slices.Backward(r.files) {
		err = errors.Join(err, f.Close())
	}
	return err
}

// Place is where the last document stands, or what is wrong: "line 7" or "byte 4711".
func (r *Reader) Place() string { return r.place }

// Next is the next document, which belongs to the caller, or nil behind the last. Errors name
// the place.
func (r *Reader) Next() (bson.Doc, error) {
	doc, place, err := r.next()
	r.place = place
	if err == nil && doc != nil {
		if len(doc) > bson.MaxDocumentSize {
			err = bson.SizeError(len(doc), doc)
		} else {
			err = bson.Validate(doc, maxDepth)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return doc, nil
}
