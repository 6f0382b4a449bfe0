package wire

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Message is one request or reply. Its documents share the frame's bytes.
type Message struct {
	RequestID  int32
	ResponseTo int32
	OpCode     OpCode     // OpMsg, OpQuery or OpReply
	Compressor Compressor // how it travels inside OP_COMPRESSED, or None

	Flags     Flags      // of an OP_MSG
	Body      bson.Doc   // the command, the query, or the answer
	Sequences []Sequence // of an OP_MSG: at most MaxSequences

	Collection string     // of an OP_QUERY: the full name, "admin.$cmd"
	ReplyFlags ReplyFlags // of an OP_REPLY
}

// Parse understands a frame, which it opens first where it is compressed. The
// error is an *Error.
func Parse(f Frame) (*Message, error) { return ParseInto(new(Message), f) }

// ParseReply is Parse for the answer of a server, in which results nest deeper than on their own.
func ParseReply(f Frame) (*Message, error) {
	return parse(new(Message), f, bson.MaxMessageDepth+aroundResults)
}

// aroundResults is how many levels an answer has around a result: cursor.firstBatch.0, and what
// a router adds, with some to spare.
const aroundResults = 8

// Clear makes m the zero message, which keeps memory.
func (m *Message) Clear() {
	clear(m.Sequences)
	*m = Message{Sequences: m.Sequences[:0]}
}

// ParseInto is Parse with the memory of a message that is not used any more.
func ParseInto(m *Message, f Frame) (*Message, error) { return parse(m, f, bson.MaxMessageDepth) }

// parse has a bound for the levels of the body.
func parse(m *Message, f Frame, depth int) (*Message, error) {
	f, compressor, err := f.Decompress()
	if err != nil {
		return nil, err
	}
	*m = Message{RequestID: f.RequestID(), ResponseTo: f.ResponseTo(), OpCode: f.OpCode(), Compressor: compressor, Sequences: m.Sequences[:0]}
	switch m.OpCode {
	case OpMsg:
		err = m.parseMsg(f, depth)
	case OpQuery:
		err = m.parseQuery(f[HeaderLen:])
	case OpReply:
		err = m.parseReply(f[HeaderLen:])
	default:
		err = m.refuseOpCode()
	}
	// A message that is broken is still given back: its header and its flags
	// report whether and how to answer.
	return m, err
}

// Append appends m as bytes to dst: header, checksum and compression as m's
// fields ask for. It fails only where m is larger than a message may be.
func (m *Message) Append(dst []byte) ([]byte, error) {
	if m.Compressor == None {
		return m.appendPlain(dst)
	}
	plain := takeBuffer()
	defer plain.release()
	var err error
	if plain.b, err = m.appendPlain(plain.b); err != nil {
		return dst, err
	}
	return appendCompressed(dst, Frame(plain.b), m.Compressor), nil
}

func (m *Message) appendPlain(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = appendHeader(dst, m.RequestID, m.ResponseTo, m.OpCode)
	switch m.OpCode {
	case OpQuery:
		dst = m.appendQuery(dst)
	case OpReply:
		dst = m.appendReply(dst)
	default:
		dst = m.appendMsg(dst)
	}
	if m.Flags&ChecksumPresent != 0 {
		dst = appendChecksum(dst, start)
	}
	if len(dst)-start > MaxMessageSize {
		return dst[:start], mongoerr.New(mongoerr.BSONObjectTooLarge, "message of %d bytes exceeds the maximum of %d", len(dst)-start, MaxMessageSize)
	}
	return seal(dst, start), nil
}

// Answer is the reply to m with the given number and body, to be sent the way
// m came: OP_REPLY to an OP_QUERY, with a checksum to a checksum, compressed
// to compressed.
func (m *Message) Answer(requestID int32, body bson.Doc) *Message {
	return m.AnswerInto(new(Message), requestID, body)
}

// AnswerInto is Answer with the memory of a message that is not used any more.
func (m *Message) AnswerInto(a *Message, requestID int32, body bson.Doc) *Message {
	*a = Message{RequestID: requestID, ResponseTo: m.RequestID, OpCode: OpMsg, Compressor: m.Compressor, Body: body}
	if m.OpCode == OpQuery || m.OpCode == OpGetMore {
		a.OpCode, a.ReplyFlags = OpReply, AwaitCapable
		return a
	}
	a.Flags = m.Flags & ChecksumPresent
	return a
}

// AnswerError is the reply that tells the sender of m what was wrong with it.
func (m *Message) AnswerError(requestID int32, e *mongoerr.Error) *Message {
	b := new(bson.Builder)
	if e.Code == codeLegacyQuery {
		a := m.Answer(requestID, b.String("$err", e.Message).Int32("code", int32(e.Code)).Double("ok", 0).Finish())
		a.ReplyFlags |= QueryFailure
		return a
	}
	b.Double("ok", 0).String("errmsg", e.Message).Int32("code", int32(e.Code)).String("codeName", e.Code.String())
	return m.Answer(requestID, b.Finish())
}

// WantsAnswer reports whether the sender waits for one.
func (m *Message) WantsAnswer() bool { return m.Flags&MoreToCome == 0 }
