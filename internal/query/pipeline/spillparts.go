package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/extsort"
	"github.com/mayflydb/mayfly/internal/seal"
)

const (
	// spillFanout is into how many parts documents are divided that memory does
	// not hold.
	spillFanout = 16
	// spillChunk is what a part writes or reads at once.
	spillChunk = 64 << 10
)

// spillSpace is where parts are: in memory as long as there is room, then in
// files.
type spillSpace struct {
	dir string
	// memory bounds the bytes in memory, but for a chunk of each part that is being
	// filled.
	memory int
	chunk  int  // bytes
	held   int  // bytes in memory
	tight  bool // there is no room
	spare  [][]byte
	stats  extsort.Stats
}

func newSpillSpace(dir string, memory int) *spillSpace {
	return &spillSpace{dir: dir, memory: memory, chunk: max(1, min(spillChunk, memory/(2*spillFanout)))}
}

// spillParts are documents divided by the hash of a key. Each time they are
// divided again it is by another hash.
type spillParts struct {
	space *spillSpace
	seed  maphash.Seed
	parts [spillFanout]*spillPart
}

// spillPart is one part: first written, then read, in the same order. It is an
// Iterator.
type spillPart struct {
	space  *spillSpace
	groups int // so many of its first documents are groups, see addGroup
	file   *seal.Temporary
	size   int64    // of the file
	chunks [][]byte // what follows it
	at     int64    // where it is read: in the file, then in the first chunk
	doc    []byte
	buf    []byte
}

func newSpillParts(space *spillSpace) *spillParts {
	return &spillParts{space: space, seed: maphash.MakeSeed()}
}

func (s *spillParts) partOf(key []byte) int { return int(maphash.Bytes(s.seed, key) % spillFanout) }

// begin makes a part, to which what belongs there goes from now on.
func (s *spillParts) begin(at int) *spillPart {
	s.parts[at] = &spillPart{space: s.space}
	return s.parts[at]
}

// finish returns the parts.
func (s *spillParts) finish() []*spillPart {
	var out []*spillPart
	for i, p := range s.parts {
		if p != nil {
			out, s.parts[i] = append(out, p), nil
		}
	}
	return out
}

func (s *spillParts) close() {
	for _, p := range s.parts {
		if p != nil {
			p.close()
		}
	}
}

// room returns the chunk to which n bytes are to be appended.
func (p *spillPart) room(n int) (*[]byte, error) {
	if last := len(p.chunks) - 1; last >= 0 {
		if c := &p.chunks[last]; cap(*c)-len(*c) >= n {
			return c, nil
		}
		if p.space.tight || p.space.held > p.space.memory {
			if err := p.flush(); err != nil {
				return nil, err
			}
		}
	}
	var c []byte
	if spare := p.space.spare; len(spare) > 0 && n <= p.space.chunk {
		c, p.space.spare = spare[len(spare)-1], spare[:len(spare)-1]
	} else {
		c = make([]byte, 0, max(p.space.chunk, n))
	}
	p.space.held += cap(c)
	p.chunks = append(p.chunks, c)
	return &p.chunks[len(p.chunks)-1], nil
}

// add appends the fields keep of a document, all where keep is nil.
func (p *spillPart) add(d bson.Doc, keep []string) error {
	c, err := p.room(len(d))
	if err != nil {
		return err
	}
	if keep == nil {
		*c = append(*c, d...)
		return nil
	}
	n := len(*c)
	// The fields fit where the whole document does, so that they are in place.
	*c = (*c)[:n+len(new(bson.Builder).Reset((*c)[n:]).Only(d, keep).Finish())]
	return nil
}

// addGroup appends a group as a document: its _id, and what its accumulators
// save. The caller adds groups before documents.
func (p *spillPart) addGroup(d bson.Doc) error {
	p.groups++
	return p.add(d, nil)
}

// flush writes what is in memory.
func (p *spillPart) flush() error {
	if p.file == nil {
		var err error
		if p.file, err = seal.NewTemporary(p.space.dir); err != nil {
			return err
		}
		p.space.stats.Spills++
	}
	for _, c := range p.chunks {
		if _, err := p.file.WriteAt(c, p.size); err != nil {
			return err
		}
		p.size += int64(len(c))
		p.space.stats.SpilledBytes += int64(len(c))
		p.recycle(c)
	}
	p.chunks = nil
	return nil
}

func (p *spillPart) recycle(c []byte) {
	p.space.held -= cap(c)
	if cap(c) == p.space.chunk && len(p.space.spare) < 2*spillFanout {
		p.space.spare = append(p.space.spare, c[:0])
	}
}

// Next reads the next document.
func (p *spillPart) Next(context.Context) (bson.Doc, error) {
	if p.at < p.size {
		return p.read()
	}
	for len(p.chunks) > 0 {
		c := p.chunks[0]
		if rest := c[p.at-p.size:]; len(rest) > 0 {
			n := binary.LittleEndian.Uint32(rest)
			p.at += int64(n)
			return bson.Doc(rest[:n:n]), nil
		}
		p.recycle(c)
		p.chunks, p.at = p.chunks[1:], p.size
	}
	return nil, nil
}

// read reads a document of the file.
func (p *spillPart) read() (bson.Doc, error) {
	if len(p.buf) < 4 {
		if err := p.fill(4); err != nil {
			return nil, err
		}
	}
	n := int(binary.LittleEndian.Uint32(p.buf))
	if len(p.buf) < n {
		if err := p.fill(n); err != nil {
			return nil, err
		}
	}
	d := p.buf[:n:n]
	p.buf = p.buf[n:]
	p.at += int64(n)
	return d, nil
}

// fill reads so much of the file that n bytes are at hand.
func (p *spillPart) fill(n int) error {
	have := copy(p.doc, p.buf)
	if cap(p.doc) < n {
		grown := make([]byte, max(n+n/4, spillChunk))
		copy(grown, p.doc[:have])
		p.doc = grown
	}
	p.doc = p.doc[:cap(p.doc)]
	m, err := p.file.ReadAt(p.doc[have:], p.at+int64(have))
	p.buf = p.doc[:have+m]
	switch {
	case len(p.buf) >= n:
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close is there for the interface: who made the part closes it.
func (p *spillPart) Close() {}

func (p *spillPart) close() {
	if p.file != nil {
		p.file.Close()
	}
	for _, c := range p.chunks {
		p.recycle(c)
	}
	p.chunks, p.doc, p.buf = nil, nil, nil
}
