package docfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/mayflydb/mayfly/internal/bson"
)

// bsonDocuments reads documents that stand one behind the other.
type bsonDocuments struct {
	in *bufio.Reader
	at int64 // bytes that were read
}

// next reads a document from its length on.
func (b *bsonDocuments) next() (doc bson.Doc, place string, err error) {
	place = fmt.Sprintf("byte %d", b.at)
	var length [4]byte
	switch n, err := io.ReadFull(b.in, length[:]); {
	case n == 0 && errors.Is(err, io.EOF):
		return nil, place, nil
	case err != nil:
		return nil, place, cut(err)
	}
	n := int32(binary.LittleEndian.Uint32(length[:]))
	if n < 5 || n > bson.MaxDocumentSize {
		return nil, place, fmt.Errorf("a document of %d bytes: not BSON, or damaged", n)
	}
	doc = make(bson.Doc, n)
	copy(doc, length[:])
	if _, err := io.ReadFull(b.in, doc[4:]); err != nil {
		return nil, place, cut(err)
	}
	b.at += int64(n)
	return doc, place, nil
}

// cut says of an error that it is the file's end.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends within a document")
	}
	return err
}
