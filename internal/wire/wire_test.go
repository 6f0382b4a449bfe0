package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cockroachdb/datadriven"
	driver "go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// doc reads extended JSON, with the driver's reader as the oracle.
func doc(t testing.TB, text string) bson.Doc {
	t.Helper()
	var raw driver.Raw
	if err := driver.UnmarshalExtJSON([]byte(text), false, &raw); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return bson.Doc(raw)
}

// TestMessages holds messages against their bytes. "encode" writes a message
// and prints it in hexadecimal after reading it back; "parse" reads bytes in
// hexadecimal ("#" begins a comment; LEN stands for the length of the whole).
func TestMessages(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "encode":
				m := message(t, d)
				b, err := m.Append(nil)
				if err != nil {
					return err.Error()
				}
				return hex.Dump(b) + parsed(b)
			case "parse":
				return parsed(unhex(t, d.Input))
			}
			return "unknown command " + d.Cmd
		})
	})
}

func message(t *testing.T, d *datadriven.TestData) *Message {
	m := &Message{OpCode: OpMsg, Compressor: None, RequestID: 7}
	var op, compressor string
	var checksum, more, exhaust bool
	d.MaybeScanArgs(t, "op", &op)
	d.MaybeScanArgs(t, "compressor", &compressor)
	d.MaybeScanArgs(t, "collection", &m.Collection)
	d.MaybeScanArgs(t, "checksum", &checksum)
	d.MaybeScanArgs(t, "moreToCome", &more)
	d.MaybeScanArgs(t, "exhaustAllowed", &exhaust)
	switch op {
	case "query":
		m.OpCode = OpQuery
	case "reply":
		m.OpCode, m.ReplyFlags, m.ResponseTo = OpReply, AwaitCapable, 6
	}
	if c, ok := CompressorByName(compressor); ok {
		m.Compressor = c
	}
	for flag, set := range map[Flags]bool{ChecksumPresent: checksum, MoreToCome: more, ExhaustAllowed: exhaust} {
		if set {
			m.Flags |= flag
		}
	}
	for i, line := range strings.Split(d.Input, "\n") {
		if i == 0 {
			m.Body = doc(t, line)
			continue
		}
		name, docs, _ := strings.Cut(line, ": ")
		s := NewSequence(name)
		for _, text := range strings.Split(docs, " ; ") {
			s.data, s.n = append(s.data, doc(t, text)...), s.n+1
		}
		m.Sequences = append(m.Sequences, s)
	}
	return m
}

func unhex(t *testing.T, text string) []byte {
	var b []byte
	length := false
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		for _, word := range strings.Fields(line) {
			if word == "LEN" {
				length, word = true, "00000000"
			}
			more, err := hex.DecodeString(word)
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, more...)
		}
	}
	if length {
		seal(b, 0)
	}
	return b
}

// parsed reads all messages of b, a byte at a time, and says what they are.
func parsed(b []byte) string {
	var out strings.Builder
	r := NewReader(iotest.OneByteReader(bytes.NewReader(b)))
	for {
		f, err := r.Next()
		var m *Message
		if err == nil {
			m, err = Parse(f)
		}
		var e *Error
		switch {
		case errors.Is(err, io.EOF):
			return out.String()
		case errors.As(err, &e):
			fmt.Fprintf(&out, "%s %d %s: %s\n", [...]string{"answer", "answer and close", "close", "ignore"}[e.Reaction], e.Cause.Code, e.Cause.Code, e.Cause.Message)
			if m != nil && e.Reaction < Close && m.WantsAnswer() {
				fmt.Fprintf(&out, "  %s", describe(m.AnswerError(1, e.Cause)))
			}
		case err != nil:
			fmt.Fprintf(&out, "%v\n", err)
		default:
			out.WriteString(describe(m))
		}
		if f == nil {
			return out.String()
		}
	}
}

func describe(m *Message) string {
	var out strings.Builder
	fmt.Fprintf(&out, "id=%d to=%d opcode=%d", m.RequestID, m.ResponseTo, m.OpCode)
	if m.Compressor != None {
		fmt.Fprintf(&out, " compressor=%d", m.Compressor)
	}
	if m.OpCode == OpMsg {
		fmt.Fprintf(&out, " flags=%b", m.Flags)
	}
	if m.OpCode == OpQuery {
		fmt.Fprintf(&out, " collection=%s db=%s", m.Collection, m.Database())
	}
	if m.OpCode == OpReply {
		fmt.Fprintf(&out, " replyflags=%b", m.ReplyFlags)
	}
	fmt.Fprintf(&out, " %s\n", m.Body)
	for _, s := range m.Sequences {
		fmt.Fprintf(&out, "  %s: %d %v\n", s.Name, s.Len(), s.AppendDocs(nil))
	}
	return out.String()
}

// TestLengths holds the bounds on the length of a message, and that memory is
// taken as bytes come.
func TestLengths(t *testing.T) {
	for _, n := range []int{0, HeaderLen - 1, MaxMessageSize + 1, -5} {
		head := appendHeader(nil, 1, 0, OpMsg)
		head[0], head[1], head[2], head[3] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
		var e *Error
		if _, err := NewReader(bytes.NewReader(head)).Next(); !errors.As(err, &e) || e.Reaction != Close {
			t.Errorf("length %d: %v", n, err)
		}
	}
	body := append(bson.Doc(nil), new(bson.Builder).Binary("b", 0, make([]byte, 3*firstRead+17)).Finish()...)
	m := &Message{OpCode: OpMsg, Compressor: None, Body: body}
	var out bytes.Buffer
	if _, err := Write(&out, m); err != nil {
		t.Fatal(err)
	}
	plain, _ := m.Append(nil)
	if !bytes.Equal(plain, out.Bytes()) {
		t.Error("a large message is written otherwise than a small one")
	}
	f, err := NewReader(&out).Next()
	if err != nil || !bytes.Equal(f, plain) {
		t.Error("a large message is read otherwise than written", err)
	}
	promise := append([]byte(nil), plain[:firstRead/2]...)
	promise[0], promise[1], promise[2], promise[3] = 0, 0, 0, 2 // 32 MiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := NewReader(bytes.NewReader(promise)).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 4*firstRead {
		t.Errorf("took %d bytes for a message that did not come", after.TotalAlloc-before.TotalAlloc)
	}
	if _, err := (&Message{OpCode: OpMsg, Compressor: None, Body: make(bson.Doc, MaxMessageSize)}).Append(nil); err == nil {
		t.Error("a message that is too large was written")
	}
}

// TestBombs holds that a message that lies about its length when decompressed
// is refused by every compressor.
func TestBombs(t *testing.T) {
	m := &Message{OpCode: OpMsg, Body: new(bson.Builder).Binary("b", 0, make([]byte, 1<<20)).Finish()}
	for _, c := range []Compressor{Noop, Snappy, Zlib, Zstd} {
		m.Compressor = c
		f, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Parse(f); err != nil || !bytes.Equal(got.Body, m.Body) {
			t.Errorf("compressor %d: %v", c, err)
		}
		for _, lie := range []uint32{0, 1 << 19, 1<<20 + 100, MaxMessageSize - HeaderLen, MaxMessageSize, 1 << 31} {
			g := append(Frame(nil), f...)
			g[20], g[21], g[22], g[23] = byte(lie), byte(lie>>8), byte(lie>>16), byte(lie>>24)
			var e *Error
			if _, err := Parse(g); !errors.As(err, &e) || e.Reaction != Close {
				t.Errorf("compressor %d, length %d: %v", c, lie, err)
			}
		}
	}
}

// TestBombMemory holds that a message takes no more memory than its header says: that is what the
// server reserves, and all that one who has not logged in may have.
func TestBombMemory(t *testing.T) {
	m := &Message{OpCode: OpMsg, Body: new(bson.Builder).Binary("b", 0, make([]byte, 40<<20)).Finish()}
	for _, c := range []Compressor{Snappy, Zlib, Zstd} {
		m.Compressor = c
		f, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		copy(f[20:24], []byte{100, 0, 0, 0})
		_, _ = Parse(f) // a decoder is made once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = Parse(f)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 1<<20 {
			t.Errorf("compressor %d: %d bytes were allocated: %v", c, n, err)
		}
	}
}

// TestDepth holds that a document too deep is the sender's mistake.
func TestDepth(t *testing.T) {
	for levels, ok := range map[int]bool{bson.MaxMessageDepth: true, bson.MaxMessageDepth + 1: false} {
		b := new(bson.Builder).Reset(nil)
		for range levels - 1 {
			b.OpenDoc("a")
		}
		f, err := (&Message{OpCode: OpMsg, Compressor: None, Body: b.Finish()}).Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(f)
		var e *Error
		if ok != (err == nil) || !ok && (!errors.As(err, &e) || e.Reaction != Answer || e.Cause.Code != mongoerr.Overflow) {
			t.Errorf("%d levels: %v", levels, err)
		}
	}
}

func TestNegotiate(t *testing.T) {
	got := fmt.Sprint(Negotiate([]string{"zstd", "lz4", "snappy", "zstd"}, []string{"snappy", "zstd", "zlib"}))
	if got != "[zstd snappy]" {
		t.Error(got)
	}
}

// The next request of a connection is parsed in the memory of the one before.
func TestParseIntoAllocatesNothing(t *testing.T) {
	b, err := (&Message{OpCode: OpMsg, Compressor: None, Body: bson.MustParse(`{insert: "c", $db: "d"}`),
		Sequences: []Sequence{NewSequence("documents", bson.MustParse(`{_id: 1}`), bson.MustParse(`{_id: 2}`))}}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	var m Message
	var docs []bson.Doc
	parse := func() {
		if _, err := ParseInto(&m, Frame(b)); err != nil {
			t.Fatal(err)
		}
		docs = m.Sequences[0].AppendDocs(docs[:0])
		if len(docs) != 2 || docs[1].Lookup("_id").Int32() != 2 {
			t.Fatal(docs)
		}
		m.Clear()
	}
	if n := testing.AllocsPerRun(100, parse); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParse feeds strangers' bytes to the reader and the parser; what they
// take must survive being written and read once more.
func FuzzParse(f *testing.F) {
	insert := &Message{OpCode: OpMsg, Compressor: None, Flags: ChecksumPresent | ExhaustAllowed,
		Body:      doc(f, `{"insert": "c", "$db": "d"}`),
		Sequences: []Sequence{NewSequence("documents", doc(f, `{"_id": 1}`), doc(f, `{"_id": [{"a": null}]}`))}}
	hello := &Message{OpCode: OpQuery, Compressor: None, Collection: "admin.$cmd", Body: doc(f, `{"isMaster": 1}`)}
	for _, m := range []*Message{insert, hello, hello.Answer(3, bson.Empty)} {
		for _, c := range []Compressor{None, Noop, Snappy, Zlib, Zstd} {
			m.Compressor = c
			b, err := m.Append(nil)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte("GET / HTTP/1.0\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		for {
			frame, err := r.Next()
			if err != nil {
				return
			}
			m, err := Parse(frame)
			if err != nil {
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("a message is refused with %T", err)
				}
				continue
			}
			again, err := m.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			n, err := Parse(again)
			if err != nil || describe(n) != describe(m) {
				t.Fatalf("%v: %s became %s", err, describe(m), describe(n))
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	m := &Message{OpCode: OpMsg, Compressor: None, Body: doc(b, `{"find": "people", "filter": {"_id": 12345}, "limit": 1, "$db": "test"}`)}
	f, _ := m.Append(nil)
	var in bytes.Reader
	r := NewReader(&in)
	b.ReportAllocs()
	for b.Loop() {
		in.Reset(f)
		frame, err := r.Next()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Parse(frame); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, c := range []Compressor{None, Snappy, Zlib, Zstd} {
		b.Run(fmt.Sprint(c), func(b *testing.B) {
			m := &Message{OpCode: OpMsg, Compressor: c, Body: new(bson.Builder).Binary("b", 0, bytes.Repeat([]byte("mayfly "), 50)).Finish()}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Write(io.Discard, m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
