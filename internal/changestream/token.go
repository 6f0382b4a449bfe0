package changestream

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Token is a resume token: a place in the log. As a document it is {_data: hex}; the hex
// digits sort as the places do. Its bytes are those of MongoDB's tokens up to the
// identifier of the event, since some clients read the time from them:
//
//	82 ‖ time, 8 bytes       2b 04: version 2
//	29 or 2c 01 00           type: 0 for a high-water mark, 128 for an event
//	29 or 2b … ‖ number      txnOpIndex, shifted left once: 0, or 1 to 7 bytes
//	6e or 6f                 whether it is of an invalidate
//	14 or 5a 10 04 ‖ UUID    of the collection; null for none
//	identifier               of an event {operationType, documentKey}, or
//	                         {operationType, operationDescription}: a component of
//	                         package keystring
//	29 or 2b … ‖ number      of a fragment of an event that was split, from 0 on; absent
//	                         for other events
//	04
type Token struct {
	// Time is the event's clusterTime, or the time up to which the log was read.
	Time uint64
	// Event says that it is of an event, and not a high-water mark.
	Event bool
	// Op is the number of the event's operation among those of the same time (txnOpIndex).
	Op uint64
	// FromInvalidate says that it is of an invalidate.
	FromInvalidate bool
	UUID           catalog.UUID
	// Identifier is the encoded identifier of the event.
	Identifier []byte
	// Fragment is the number of a fragment of a split event, −1 for an event that was not
	// split.
	Fragment int
}

const (
	tagTimestamp = 0x82
	tagZero      = 0x29
	tagNumber    = 0x2b // of one byte; the next ones have more
	tagFalse     = 0x6e
	tagTrue      = 0x6f
	tagNull      = 0x14
	tagBinary    = 0x5a
	tagEnd       = 0x04

	tokenVersion = 2
	eventType    = 128
	// maxTokenBytes bounds the tokens that are read: an _id and a shard key fit.
	maxTokenBytes = 16 << 20
)

// Mark returns the high-water mark of a time: all events up to it have been told.
func Mark(time uint64) Token { return Token{Time: time, Fragment: -1} }

// Append appends the token's bytes.
func (t *Token) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, tagTimestamp), t.Time)
	dst = appendNumber(dst, tokenVersion)
	if t.Event {
		dst = appendNumber(dst, eventType)
	} else {
		dst = appendNumber(dst, 0)
	}
	dst = append(appendNumber(dst, t.Op), tagFalse)
	if t.FromInvalidate {
		dst[len(dst)-1] = tagTrue
	}
	if t.UUID == (catalog.UUID{}) {
		dst = append(dst, tagNull)
	} else {
		dst = append(append(dst, tagBinary, byte(len(t.UUID)), 4), t.UUID[:]...)
	}
	dst = append(dst, t.Identifier...)
	if t.Fragment >= 0 {
		dst = appendNumber(dst, uint64(t.Fragment))
	}
	return append(dst, tagEnd)
}

// AppendDoc appends the token as a document.
func (t *Token) AppendDoc(dst []byte) []byte {
	const digits, head = "0123456789ABCDEF", "\x02_data\x00"
	var room [128]byte
	raw := t.Append(room[:0])
	from := len(dst)
	dst = append(append(dst, 0, 0, 0, 0), head...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(2*len(raw)+1))
	for _, c := range raw {
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	dst = append(dst, 0, 0)
	binary.LittleEndian.PutUint32(dst[from:], uint32(len(dst)-from))
	return dst
}

// Doc writes the token as a document's value.
func (t *Token) Doc(b *bson.Builder, name string) {
	var room [256]byte
	b.Doc(name, t.AppendDoc(room[:0]))
}

// Same reports whether two tokens are of the same operation.
func (t *Token) Same(o *Token) bool {
	return t.Time == o.Time && t.Op == o.Op && t.UUID == o.UUID && bytes.Equal(t.Identifier, o.Identifier)
}

// Before reports whether an event lies before the event of another token.
func (t *Token) Before(o *Token) bool {
	a, b := *t, *o
	a.FromInvalidate, b.FromInvalidate, a.Fragment, b.Fragment = false, false, -1, -1
	return bytes.Compare(a.Append(nil), b.Append(nil)) < 0
}

// appendNumber appends a number that is not negative.
func appendNumber(dst []byte, n uint64) []byte {
	if n == 0 {
		return append(dst, tagZero)
	}
	n <<= 1
	size := 1
	for size < 8 && n>>(8*size) > 0 {
		size++
	}
	dst = append(dst, byte(tagNumber+size-1))
	for i := size - 1; i >= 0; i-- {
		dst = append(dst, byte(n>>(8*i)))
	}
	return dst
}

// tokenReader reads the parts of a token. After its end all is zero, and bad is true.
type tokenReader struct {
	rest []byte
	bad  bool
}

func (r *tokenReader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.rest, r.bad = nil, true
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *tokenReader) number() uint64 {
	tag := r.bytes(1)[0]
	if tag == tagZero {
		return 0
	}
	if tag < tagNumber || tag > tagNumber+7 {
		r.bad = true
		return 0
	}
	n := uint64(0)
	for _, c := range r.bytes(int(tag-tagNumber) + 1) {
		n = n<<8 | uint64(c)
	}
	return n >> 1
}

// component reads a component of package keystring.
func (r *tokenReader) component() []byte {
	n := keystring.Skip(r.rest, false)
	if n < 0 {
		r.rest, r.bad = nil, true
		return nil
	}
	return r.bytes(n)
}

// ParseToken reads a token that a client has sent. Errors: 40647, 40649 and 9 for what is
// none, 50811 for bytes of another kind, 15 for a token that was truncated, 50796 for
// another version, 40648 for _typeBits that are not binary.
func ParseToken(d bson.Doc) (*Token, error) {
	data := d.Lookup("_data")
	if data.Type != bson.TypeString {
		return nil, mongoerr.New(40647, "Bad resume token: _data of missing or of wrong type: %s", d)
	}
	if v := d.Lookup("_typeBits"); !v.IsMissing() && v.Type != bson.TypeBinary {
		return nil, mongoerr.New(40648, "Bad resume token: _typeBits of wrong type: %s", d)
	}
	if data.Str() == "" {
		return nil, mongoerr.New(40649, "resume token string was not a valid hex string: it is empty")
	}
	raw, err := hex.DecodeString(data.Str())
	if err != nil || len(raw) > maxTokenBytes {
		return nil, mongoerr.New(mongoerr.FailedToParse, "resume token string was not a valid hex string")
	}
	if raw[0] != tagTimestamp {
		return nil, mongoerr.New(50811, "Unknown type: %d", raw[0])
	}
	r := tokenReader{rest: raw[1:]}
	t := &Token{Time: binary.BigEndian.Uint64(r.bytes(8)), Fragment: -1}
	version, kind := r.number(), r.number()
	if !r.bad && (version != tokenVersion || kind != 0 && kind != eventType) {
		return nil, mongoerr.New(50796, "Resume Token Version is not supported")
	}
	t.Event, t.Op = kind == eventType, r.number()
	t.FromInvalidate = r.bytes(1)[0] == tagTrue
	if tag := r.bytes(1)[0]; tag == tagBinary {
		r.bytes(2)
		copy(t.UUID[:], r.bytes(len(t.UUID)))
	}
	if t.Event {
		t.Identifier = r.component()
		if len(r.rest) > 0 && r.rest[0] != tagEnd {
			n := r.number()
			r.bad = r.bad || n > math.MaxInt32
			t.Fragment = int(n)
		}
	}
	if r.bad { // a token that lacks nothing but its end is taken, as on mongod
		return nil, mongoerr.New(mongoerr.Overflow, "resume token is truncated, or was not made by this server")
	}
	return t, nil
}
