package wire

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Flags of an OP_MSG. A receiver must understand the lower sixteen bits and
// may ignore the upper ones.
type Flags uint32

const (
	// ChecksumPresent: the message ends with the CRC-32C of all before it.
	ChecksumPresent Flags = 1 << 0
	// MoreToCome: no answer is wanted (a request), or another answer follows
	// without a request (a reply).
	MoreToCome Flags = 1 << 1
	// ExhaustAllowed: the client takes several answers to this request.
	ExhaustAllowed Flags = 1 << 16

	requiredFlags Flags = 0xffff
	knownRequired       = ChecksumPresent | MoreToCome
)

// MaxSequences bounds the document sequences of one OP_MSG; bulkWrite has two.
const MaxSequences = 2

// The kinds of section.
const (
	sectionBody          = 0
	sectionSequence      = 1
	sectionSecurityToken = 2
)

// checksumLen is the length in bytes of the checksum at the end of a message.
const checksumLen = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sequence is a section of kind 1: an array argument of the command, sent
// outside the body.
type Sequence struct {
	Name string // the argument's, such as "documents"
	data []byte // whole documents, one after the other
	n    int
}

// NewSequence makes a sequence of docs, for the sending side.
func NewSequence(name string, docs ...bson.Doc) Sequence {
	size := 0
	for _, d := range docs {
		size += len(d)
	}
	s := Sequence{Name: name, n: len(docs), data: make([]byte, 0, size)}
	for _, d := range docs {
		s.data = append(s.data, d...)
	}
	return s
}

// Len is the number of documents.
func (s Sequence) Len() int { return s.n }

// Size is how many bytes the documents take.
func (s Sequence) Size() int { return len(s.data) }

// AppendDocs appends the documents to dst.
func (s Sequence) AppendDocs(dst []bson.Doc) []bson.Doc {
	dst = slices.Grow(dst, s.n)
	for d := range s.All() {
		dst = append(dst, d)
	}
	return dst
}

// All ranges over the documents.
func (s Sequence) All() iter.Seq[bson.Doc] {
	return func(yield func(bson.Doc) bool) {
		for rest := s.data; len(rest) > 0; {
			n := binary.LittleEndian.Uint32(rest)
			if !yield(bson.Doc(rest[:n:n])) {
				return
			}
			rest = rest[n:]
		}
	}
}

// parseMsg reads flags and sections, and the checksum if there is one.
func (m *Message) parseMsg(f Frame, depth int) error {
	if len(f) < HeaderLen+4 {
		return closing(mongoerr.ProtocolError, "OP_MSG of %d bytes has no flags", len(f))
	}
	m.Flags = Flags(binary.LittleEndian.Uint32(f[HeaderLen:]))
	if unknown := m.Flags & requiredFlags &^ knownRequired; unknown != 0 {
		return closing(mongoerr.IllegalOpMsgFlag, "Message contains illegal flags value: Ob%b", uint32(m.Flags))
	}
	rest := f[HeaderLen+4:]
	if m.Flags&ChecksumPresent != 0 {
		if len(rest) < checksumLen {
			return closing(mongoerr.ProtocolError, "OP_MSG of %d bytes has no checksum", len(f))
		}
		at := len(f) - checksumLen
		if binary.LittleEndian.Uint32(f[at:]) != crc32.Checksum(f[:at], castagnoli) {
			return closing(mongoerr.ChecksumMismatch, "OP_MSG checksum does not match contents")
		}
		rest = rest[:len(rest)-checksumLen]
	}
	for len(rest) > 0 {
		var err error
		if rest, err = m.parseSection(rest, depth); err != nil {
			return err
		}
	}
	if m.Body == nil {
		return broken(40587, "OP_MSG messages must have a body")
	}
	for _, s := range m.Sequences {
		if m.Body.Has(s.Name) {
			return answering(mongoerr.New(40433, "Duplicate field between body and document sequence %s", s.Name))
		}
	}
	return nil
}

// parseSection takes one section off the front of b and returns the rest.
func (m *Message) parseSection(b []byte, depth int) ([]byte, error) {
	kind, b := b[0], b[1:]
	switch kind {
	case sectionBody:
		if m.Body != nil {
			return nil, broken(40430, "Multiple body sections in message")
		}
		d, rest, err := parseDoc(b, depth)
		m.Body = d
		return rest, err
	case sectionSequence:
		if len(m.Sequences) == MaxSequences {
			return nil, closing(mongoerr.TooManyDocumentSequences, "Too many document sequences in OP_MSG")
		}
		n := length(b)
		if n < 4 || n > len(b) {
			return nil, broken(mongoerr.Overflow, "document sequence of %d bytes in a message with %d left", n, len(b))
		}
		return b[n:], m.parseSequence(b[4:n])
	case sectionSecurityToken:
		return nil, broken(mongoerr.Unauthorized, "Unsupported Security Token provided")
	}
	return nil, broken(40432, "Unknown section kind %d", kind)
}

// argumentName is the name of a section, which most often is one of few.
func argumentName(b []byte) string {
	switch string(b) {
	case "documents":
		return "documents"
	case "updates":
		return "updates"
	case "deletes":
		return "deletes"
	}
	return string(b)
}

func (m *Message) parseSequence(b []byte) error {
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return broken(mongoerr.Overflow, "document sequence with an unterminated name")
	}
	s := Sequence{Name: argumentName(b[:end]), data: b[end+1:]}
	for _, other := range m.Sequences {
		if other.Name == s.Name {
			return answering(mongoerr.New(40431, "Duplicate document sequence: %s", s.Name))
		}
	}
	for rest := s.data; len(rest) > 0; s.n++ {
		var err error
		if _, rest, err = parseDoc(rest, bson.MaxMessageDepth); err != nil {
			return err
		}
	}
	m.Sequences = append(m.Sequences, s)
	return nil
}

// parseDoc takes one valid document of at most depth levels off the front of b.
func parseDoc(b []byte, depth int) (d bson.Doc, rest []byte, err error) {
	n := length(b)
	if n < len(bson.Empty) || n > len(b) {
		return nil, nil, broken(mongoerr.InvalidBSON, "invalid BSON length in object with unknown _id")
	}
	d = bson.Doc(b[:n:n])
	if err := bson.Validate(d, depth); err != nil {
		return nil, nil, answering(err)
	}
	if n > bson.MaxInternalSize {
		return nil, nil, answering(bson.SizeError(n, d))
	}
	return d, b[n:], nil
}

// length reads the int32 in front of b, or gives -1 if there is none.
func length(b []byte) int {
	if len(b) < 4 {
		return -1
	}
	return int(int32(binary.LittleEndian.Uint32(b)))
}

func (m *Message) appendMsg(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(m.Flags))
	dst = append(append(dst, sectionBody), m.Body...)
	for _, s := range m.Sequences {
		dst = append(dst, sectionSequence)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(4+len(s.Name)+1+len(s.data)))
		dst = append(append(dst, s.Name...), 0)
		dst = append(dst, s.data...)
	}
	return dst
}

// appendChecksum ends the message that starts at start with its checksum,
// which covers the header with its final length.
func appendChecksum(dst []byte, start int) []byte {
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start+checksumLen))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}
