package pipeline

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

const (
	// spillFanout is into how many parts documents are divided that memory does
	// not hold.
	spillFanout = 16
	// spillBuffer is what one part writes or reads at once.
	spillBuffer = 64 << 10
)

// spillParts are documents on disk, divided by the hash of a key. Each time
// they are divided again it is by another hash.
type spillParts struct {
	dir   string
	seed  maphash.Seed
	parts [spillFanout]*spillPart
	doc   []byte // the last one, as it was written
}

// spillPart is one part: first written, then read, in the same order. It is an
// Iterator.
type spillPart struct {
	file   *os.File
	w      *bufio.Writer
	r      *bufio.Reader
	doc    []byte
	groups []*group // in memory, to which documents may belong
}

func newSpillParts(dir string) *spillParts { return &spillParts{dir: dir, seed: maphash.MakeSeed()} }

func (s *spillParts) partOf(key []byte) int { return int(maphash.Bytes(s.seed, key) % spillFanout) }

// add writes the fields keep of a document, all where keep is nil, and returns
// how many bytes that took.
func (s *spillParts) add(key []byte, d bson.Doc, keep []string) (int, error) {
	at := s.partOf(key)
	if s.parts[at] == nil {
		f, err := os.CreateTemp(s.dir, "spill-*")
		if err != nil {
			return 0, err
		}
		// The file has no name once it is open, so it is gone on every exit.
		s.parts[at] = &spillPart{file: f, w: bufio.NewWriterSize(f, spillBuffer)}
		if err := os.Remove(f.Name()); err != nil {
			return 0, err
		}
	}
	if keep != nil {
		s.doc = new(bson.Builder).Reset(s.doc[:0]).Only(d, keep).Finish()
		d = s.doc
	}
	return s.parts[at].w.Write(d)
}

// carry makes groups in memory go along with the part to which documents of
// theirs belong, and returns those for which there is no such part.
func (s *spillParts) carry(groups []*group) []*group {
	return slices.DeleteFunc(groups, func(gr *group) bool {
		p := s.parts[s.partOf([]byte(gr.key))]
		if p != nil {
			p.groups = append(p.groups, gr)
		}
		return p != nil
	})
}

// finish ends the writing and returns the parts that have documents.
func (s *spillParts) finish() ([]*spillPart, error) {
	var full []*spillPart
	for i, p := range s.parts {
		if p == nil {
			continue
		}
		if err := p.w.Flush(); err != nil {
			return full, err
		}
		if _, err := p.file.Seek(0, io.SeekStart); err != nil {
			return full, err
		}
		p.w = nil
		full, s.parts[i] = append(full, p), nil
	}
	return full, nil
}

func (s *spillParts) close() {
	for _, p := range s.parts {
		if p != nil {
			p.close()
		}
	}
}

// Next reads the next document.
func (p *spillPart) Next(context.Context) (bson.Doc, error) {
	if p.r == nil {
		p.r = bufio.NewReaderSize(p.file, spillBuffer)
	}
	head, err := p.r.Peek(4)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) == 0 {
			return nil, nil
		}
		return nil, err
	}
	n := int(binary.LittleEndian.Uint32(head))
	if cap(p.doc) < n {
		p.doc = make([]byte, n, n+n/4)
	}
	p.doc = p.doc[:n]
	_, err = io.ReadFull(p.r, p.doc)
	return p.doc, err
}

// Close is there for the interface: who made the part closes it.
func (p *spillPart) Close() {}

func (p *spillPart) close() {
	p.file.Close()
	p.groups, p.r, p.w = nil, nil, nil
}
