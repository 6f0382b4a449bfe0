package extsort

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/seal"
)

// listOverhead is what a document in memory costs a List in addition to its bytes.
const listOverhead = 32

// List is a sequence of documents that is filled at its end, read anywhere, and
// released from its start. What memory does not hold is written to a file. Not for
// concurrent use.
type List struct {
	dir     string
	first   int      // the first document that is still held
	docs    [][]byte // in memory: documents first and on
	bytes   int
	file    *seal.Temporary
	offsets []int64 // on disk: where documents first and on start, and where the last ends
	memory  memory.Holding
}

// NewList makes a List. spillDir is the directory of the file; "" forbids it.
func NewList(spillDir string) *List { return &List{dir: spillDir} }

// Hold makes the list take its memory from h: if there is none left it
// spills, or fails with the error of h.
func (l *List) Hold(h memory.Holding) { l.memory = h }

// Len is the number of documents that have been appended.
func (l *List) Len() int {
	if l.file != nil {
		return l.first + len(l.offsets) - 1
	}
	return l.first + len(l.docs)
}

// Spilled reports whether documents are on the disk.
func (l *List) Spilled() bool { return l.file != nil }

// Bytes is what the list holds in memory.
func (l *List) Bytes() int { return l.bytes }

// Append adds a document; its bytes are copied. It returns ErrMemory if the
// list would outgrow limit and may not spill.
func (l *List) Append(doc []byte, limit int) error {
	if l.file != nil {
		return l.write(doc)
	}
	l.docs = append(l.docs, slices.Clone(doc))
	l.bytes += len(doc) + listOverhead
	ok, err := l.memory.Spilling(l.bytes)
	switch {
	case err != nil:
		return err
	case ok && l.bytes <= limit:
		return nil
	case !ok && l.dir == "":
		return l.memory.Set(l.bytes)
	}
	return l.spill()
}

func (l *List) spill() error {
	if l.dir == "" {
		return ErrMemory
	}
	var err error
	if l.file, err = seal.NewTemporary(l.dir); err != nil {
		return err
	}
	l.offsets = []int64{0}
	for _, d := range l.docs {
		if err := l.write(d); err != nil {
			return err
		}
	}
	l.docs, l.bytes = nil, 0
	l.memory.Release()
	return nil
}

func (l *List) write(doc []byte) error {
	end := l.offsets[len(l.offsets)-1]
	_, err := l.file.WriteAt(doc, end)
	l.offsets = append(l.offsets, end+int64(len(doc)))
	return err
}

// At returns document i, which is held: valid until it is released.
func (l *List) At(i int) ([]byte, error) {
	i -= l.first
	if l.file == nil {
		return l.docs[i], nil
	}
	doc := make([]byte, l.offsets[i+1]-l.offsets[i])
	_, err := l.file.ReadAt(doc, l.offsets[i])
	return doc, err
}

// Release releases the documents before i.
func (l *List) Release(i int) {
	n := min(i, l.Len()) - l.first
	if n <= 0 {
		return
	}
	l.first += n
	if l.file != nil {
		l.offsets = l.offsets[n:]
		return
	}
	for j, d := range l.docs[:n] {
		l.bytes -= len(d) + listOverhead
		l.docs[j] = nil
	}
	l.docs = l.docs[n:]
	l.memory.Shrink(l.bytes)
}

// Close gives memory and disk back.
func (l *List) Close() error {
	l.docs = nil
	l.memory.Release()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
