package wire

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
)

const (
	// gatherAbove is the size of a body, in bytes, from which on it is written
	// from where it lies instead of being copied behind its header.
	gatherAbove = 16 << 10
	// pooledBuffer bounds a buffer that is kept for the next message.
	pooledBuffer = 1 << 20
)

// buffer is what one message is put together in.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, 4<<10)} }}

func takeBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.b = b.b[:0]
	return b
}

func (b *buffer) release() {
	if cap(b.b) <= pooledBuffer {
		buffers.Put(b)
	}
}

// Write sends m with one call to w where it is small, and returns how many
// bytes were sent. The bytes of m are not used after Write returns. A message
// that is too large is a *mongoerr.Error, and nothing is sent.
func Write(w io.Writer, m *Message) (int64, error) {
	out := takeBuffer()
	defer out.release()
	if m.OpCode == OpMsg && m.Compressor == None && m.Flags&ChecksumPresent == 0 && len(m.Sequences) == 0 && len(m.Body) > gatherAbove && len(m.Body) <= bson.MaxInternalSize {
		head := appendHeader(out.b, m.RequestID, m.ResponseTo, OpMsg)
		head = append(binary.LittleEndian.AppendUint32(head, uint32(m.Flags)), sectionBody)
		binary.LittleEndian.PutUint32(head, uint32(len(head)+len(m.Body)))
		out.b = head
		return (&net.Buffers{head, m.Body}).WriteTo(w)
	}
	var err error
	if out.b, err = m.Append(out.b); err != nil {
		return 0, err
	}
	n, err := w.Write(out.b)
	return int64(n), err
}
