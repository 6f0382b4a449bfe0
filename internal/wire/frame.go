package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"

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

// known says whether op may occur.
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

// ErrHTTP is the error of a Reader whose peer speaks HTTP.
var ErrHTTP = errors.New("HTTP request on the native port")

// HTTPAnswer is what a client that speaks HTTP is told.
const HTTPAnswer = "HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 85\r\n\r\n" +
	"It looks like you are trying to access MongoDB over HTTP on the native driver port.\r\n"

// Reader takes frames off a connection.
type Reader struct {
	r *bufio.Reader
}

// NewReader reads from r, with a buffer of a few kilobytes.
func NewReader(r io.Reader) *Reader { return &Reader{bufio.NewReaderSize(r, readBuffer)} }

// Next returns the next message. The error is io.EOF where the peer stopped
// between two messages, an *Error where the header is impossible, ErrHTTP, or
// what the connection says.
func (r *Reader) Next() (Frame, error) {
	header, err := r.r.Peek(HeaderLen)
	if err != nil {
		if errors.Is(err, io.EOF) && len(header) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if bytes.HasPrefix(header, []byte("GET ")) {
		return nil, ErrHTTP
	}
	n := int64(int32(binary.LittleEndian.Uint32(header)))
	if n < HeaderLen || n > MaxMessageSize {
		return nil, closing(mongoerr.ProtocolError, "recv(): message mstLen is invalid. Length: %d, min: %d, max: %d", n, HeaderLen, MaxMessageSize)
	}
	// Whoever speaks another protocol, TLS for one, need not send the megabytes
	// that its first bytes say.
	if op := OpCode(binary.LittleEndian.Uint32(header[12:])); !op.known() {
		return nil, unknownOpCode(op)
	}
	f, err := r.take(int(n))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return f, err
}

// take reads n bytes, and takes memory for them as they come.
func (r *Reader) take(n int) (Frame, error) {
	f := make(Frame, min(n, firstRead))
	for at := 0; ; {
		if _, err := io.ReadFull(r.r, f[at:]); err != nil {
			return nil, err
		}
		if at = len(f); at == n {
			return f, nil
		}
		f = slices.Grow(f, min(at, n-at))[:at+min(at, n-at)]
	}
}
