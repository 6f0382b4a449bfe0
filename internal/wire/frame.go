package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// HeaderLen is the length in bytes of the header in front of every message:
// length, request id, id of the request this answers, opcode; each an int32.
const HeaderLen = 16

// MaxMessageSize bounds a message with its header, before and after
// decompression, in bytes.
const MaxMessageSize = 48_000_000

const (
	// readBuffer is what a connection holds while it waits for a request.
	readBuffer = 4 << 10
	// FreeRead is what a message gets without asking the Reader's Memory.
	FreeRead = 64 << 10
	// firstRead bounds the memory taken for a message on the word of its
	// header alone; beyond that, memory at most doubles what has arrived.
	firstRead = 256 << 10
)

// OpCode says what a message is.
type OpCode int32

// The opcodes that may occur. Those marked retired are known so that they can
// be refused by name.
const (
	OpReply       OpCode = 1
	OpUpdate      OpCode = 2001 // retired
	OpInsert      OpCode = 2002 // retired
	OpQuery       OpCode = 2004
	OpGetMore     OpCode = 2005 // retired
	OpDelete      OpCode = 2006 // retired
	OpKillCursors OpCode = 2007 // retired
	OpCompressed  OpCode = 2012
	OpMsg         OpCode = 2013
)

// known reports whether op may occur.
func (op OpCode) known() bool {
	switch op {
	case OpReply, OpUpdate, OpInsert, OpQuery, OpGetMore, OpDelete, OpKillCursors, OpCompressed, OpMsg:
		return true
	}
	return false
}

// Frame is one whole message as bytes, its header included.
type Frame []byte

// RequestID is the number that the sender gave the message.
func (f Frame) RequestID() int32 { return int32(binary.LittleEndian.Uint32(f[4:])) }

// ResponseTo is the number of the message that this one answers.
func (f Frame) ResponseTo() int32 { return int32(binary.LittleEndian.Uint32(f[8:])) }

// OpCode says what the message is.
func (f Frame) OpCode() OpCode { return OpCode(binary.LittleEndian.Uint32(f[12:])) }

// appendHeader appends a header whose length is left for seal to fill in.
func appendHeader(dst []byte, requestID, responseTo int32, op OpCode) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(requestID))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(responseTo))
	return binary.LittleEndian.AppendUint32(dst, uint32(op))
}

// seal writes the length of the message that starts at start into its header.
func seal(b []byte, start int) []byte {
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	return b
}

// Memory is asked for what large messages take while they arrive.
type Memory interface {
	// Begin is told of a message of n bytes, before any memory is taken for it; an
	// error refuses it and ends the connection.
	Begin(n int) error
	// Room is asked for n bytes in all, beyond FreeRead. Where it fails the rest of
	// the message is passed over.
	Room(n int) error
	// Late reports whether to go on waiting for a message after an error of the
	// connection.
	Late(err error) bool
}

// Reader takes frames off a connection.
type Reader struct {
	r      *bufio.Reader
	memory Memory // or nil
}

// NewReader reads from r, with a buffer of a few kilobytes.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, readBuffer)} }

// Ask makes m what is asked for the memory of large messages.
func (r *Reader) Ask(m Memory) { r.memory = m }

// Next returns the next message. The error is io.EOF where the peer stopped
// between two messages, an *Error where the header is impossible or there is no
// memory for the message, or what the connection says. Where the *Error
// asks for an answer, the frame is what there is of the message: its header at
// least.
func (r *Reader) Next() (Frame, error) {
	header, err := r.r.Peek(HeaderLen)
	if err != nil {
		if errors.Is(err, io.EOF) && len(header) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	n := int64(int32(binary.LittleEndian.Uint32(header)))
	if n < HeaderLen || n > MaxMessageSize {
		return nil, closing(mongoerr.ProtocolError, "recv(): message mstLen is invalid. Length: %d, min: %d, max: %d", n, HeaderLen, MaxMessageSize)
	}
	// A peer with another protocol, for example TLS, need not send the megabytes
	// that its first bytes say.
	if op := OpCode(binary.LittleEndian.Uint32(header[12:])); !op.known() {
		return nil, unknownOpCode(op)
	}
	if r.memory != nil {
		if err := r.memory.Begin(int(n)); err != nil {
			return nil, &Error{mongoerr.From(err), Close}
		}
	}
	f, err := r.take(int(n))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return f, err
}

// take reads n bytes, and takes memory for them as they come.
func (r *Reader) take(n int) (Frame, error) {
	first := min(n, firstRead)
	if err := r.room(first); err != nil {
		return r.passOver(nil, n, err)
	}
	f := make(Frame, first)
	for at := 0; ; {
		if err := r.fill(f[at:]); err != nil {
			return nil, err
		}
		if at = len(f); at == n {
			return f, nil
		}
		more := min(at, n-at)
		if err := r.room(at + more); err != nil {
			return r.passOver(f, n-at, err)
		}
		// Grow would round up: what was asked for is what is taken.
		f = append(make(Frame, 0, at+more), f...)[:at+more]
	}
}

func (r *Reader) room(n int) error {
	if r.memory == nil || n <= FreeRead {
		return nil
	}
	return r.memory.Room(n)
}

// fill fills b.
func (r *Reader) fill(b []byte) error {
	for {
		n, err := io.ReadFull(r.r, b)
		if err == nil {
			return nil
		}
		if b = b[n:]; r.memory == nil || !r.memory.Late(err) {
			return err
		}
	}
}

// flagsEnd is how much of an OP_MSG is enough to tell its flags.
const flagsEnd = HeaderLen + 4

// passOver reads the rest of a message, of left bytes, which there is no memory
// for because of cause. f is what was read of it.
func (r *Reader) passOver(f Frame, left int, cause error) (Frame, error) {
	if f == nil {
		f = make(Frame, flagsEnd)
		if err := r.fill(f); err != nil {
			return nil, err
		}
		left -= flagsEnd
	}
	for left > 0 {
		n, err := r.r.Discard(left)
		if left -= n; err != nil && (r.memory == nil || !r.memory.Late(err)) {
			return nil, err
		}
	}
	return append(Frame(nil), f[:flagsEnd]...), answering(cause)
}

// Unpacked is how many bytes the message takes without compression, by its
// header.
func (f Frame) Unpacked() int {
	if f.OpCode() != OpCompressed || len(f) < HeaderLen+compressedHead {
		return len(f)
	}
	return HeaderLen + min(max(length(f[HeaderLen+4:]), 0), MaxMessageSize)
}

// Refused is the message of a frame that Next refused, as far as it is known, to
// be answered.
func (f Frame) Refused() *Message {
	m := &Message{RequestID: f.RequestID(), OpCode: OpMsg}
	if f.OpCode() == OpMsg && len(f) >= flagsEnd {
		m.Flags = Flags(binary.LittleEndian.Uint32(f[HeaderLen:])) & MoreToCome
	}
	return m
}
