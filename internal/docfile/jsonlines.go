package docfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/mayflydb/mayfly/internal/bson"
)

// jsonLines reads lines of extended JSON.
type jsonLines struct {
	in *bufio.Reader
	at int64 // lines that were read
}

// next reads a document from the next line that has one.
func (l *jsonLines) next() (doc bson.Doc, place string, err error) {
	for {
		l.at++
		place = fmt.Sprintf("line %d", l.at)
		line, err := l.line()
		if err != nil || line == nil {
			return nil, place, err
		}
		if l.at == 1 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !utf8.Valid(line) {
			return nil, place, errNotUTF8
		}
		doc, err = bson.ParseJSON(string(line))
		return doc, place, err
	}
}

// byteOrderMark is what some tools begin a text with.
const byteOrderMark = "\xef\xbb\xbf"

var errNotUTF8 = errors.New("not in UTF-8")

// line reads a line, nil at the end.
func (l *jsonLines) line() (line []byte, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case err != nil && len(bytes.TrimSpace(line)) == 0:
			return nil, nil
		}
		return line, nil
	}
}
