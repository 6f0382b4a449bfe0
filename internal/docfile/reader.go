package docfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Reader reads the documents of a file.
type Reader struct {
	in     *bufio.Reader
	format Format
	at     int64 // lines that were read, or bytes
	place  string
}

// NewReader reads a file.
func NewReader(in io.Reader, f Format) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 1<<16), format: f}
}

// Place is where the last document stands, or what is wrong: "line 7" or "byte 4711".
func (r *Reader) Place() string { return r.place }

// Next is the next document, which belongs to the caller, or nil behind the last. Errors name
// the place.
func (r *Reader) Next() (bson.Doc, error) {
	next := r.line
	if r.format == BSON {
		next = r.bson
	}
	doc, err := next()
	if err == nil && doc != nil {
		if len(doc) > bson.MaxDocumentSize {
			err = bson.SizeError(len(doc), doc)
		} else {
			err = bson.Validate(doc, maxDepth)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.place, err)
	}
	return doc, nil
}

// line reads a document from the next line that has one.
func (r *Reader) line() (bson.Doc, error) {
	for {
		r.at++
		r.place = fmt.Sprintf("line %d", r.at)
		var line []byte
		for {
			part, err := r.in.ReadSlice('\n')
			line = append(line, part...)
			switch {
			case len(line) > maxLine:
				return nil, fmt.Errorf("longer than %d bytes", maxLine)
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			case err != nil && !errors.Is(err, io.EOF):
				return nil, err
			}
			if err != nil && len(bytes.TrimSpace(line)) == 0 {
				return nil, nil
			}
			break
		}
		if r.at == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !utf8.Valid(line) {
			return nil, errors.New("not in UTF-8")
		}
		return bson.ParseJSON(string(line))
	}
}

// bson reads a document from its length on.
func (r *Reader) bson() (bson.Doc, error) {
	r.place = fmt.Sprintf("byte %d", r.at)
	var length [4]byte
	switch n, err := io.ReadFull(r.in, length[:]); {
	case n == 0 && errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, cut(err)
	}
	n := int32(binary.LittleEndian.Uint32(length[:]))
	if n < 5 || n > bson.MaxDocumentSize {
		return nil, fmt.Errorf("a document of %d bytes: not BSON, or damaged", n)
	}
	doc := make(bson.Doc, n)
	copy(doc, length[:])
	if _, err := io.ReadFull(r.in, doc[4:]); err != nil {
		return nil, cut(err)
	}
	r.at += int64(n)
	return doc, nil
}

// cut says of an error that it is the file's end.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends within a document")
	}
	return err
}
