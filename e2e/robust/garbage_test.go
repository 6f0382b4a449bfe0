package robust

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

const (
	// mutations is how many damaged messages are sent.
	mutations = 3000
	// answerTime is how long a damaged message may go without an answer: one
	// whose length has grown waits for the rest.
	answerTime = 50 * time.Millisecond
	// closeTime is within what a connection with garbage has to end.
	closeTime = 5 * time.Second
)

// garbage is bytes that are no message whatever follows; each costs its sender
// the connection, and the log one line.
func garbage() map[string][]byte {
	header := func(length, opcode uint32) []byte {
		b := binary.LittleEndian.AppendUint32(nil, length)
		return binary.LittleEndian.AppendUint32(append(b, 1, 0, 0, 0, 0, 0, 0, 0), opcode)
	}
	return map[string][]byte{
		"noise":           bytes.Repeat([]byte{0xff}, 64),
		"zeros":           make([]byte, 64),
		"no length":       header(0, 2013),
		"short length":    header(15, 2013),
		"too long":        header(48<<20+1, 2013),
		"negative length": header(1<<31, 2013),
		"unknown opcode":  append(header(26, 2500), 0, 0, 0, 0, 0, 5, 0, 0, 0, 0),
		"tls hello":       append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 64)...),
		"ssh":             []byte("SSH-2.0-OpenSSH_9.2p1 Debian\r\n"),
	}
}

// message is a valid OP_MSG.
func message(body bson.D) []byte {
	doc, err := bson.Marshal(body)
	if err != nil {
		panic(err)
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(16+4+1+len(doc)))
	b = append(b, 1, 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, 2013)
	return append(append(b, 0, 0, 0, 0, 0), doc...)
}

// valid are the messages that mutations begin with.
func valid() [][]byte {
	where := bson.E{Key: "$db", Value: "garbage"}
	doc := bson.D{{Key: "a", Value: bson.A{1, "x", bson.D{{Key: "b", Value: time.Now()}}}}, {Key: "r", Value: bson.Regex{Pattern: "a", Options: "i"}}}
	return [][]byte{
		message(bson.D{{Key: "hello", Value: 1}, {Key: "client", Value: bson.D{{Key: "driver", Value: bson.D{}}}}, where}),
		message(bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{doc}}, where}),
		message(bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: "a.b", Value: bson.D{{Key: "$gt", Value: 1}}}}}, {Key: "sort", Value: bson.D{{Key: "a", Value: 1}}}, where}),
		message(bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{}}, {Key: "u", Value: bson.D{{Key: "$push", Value: bson.D{{Key: "a", Value: 1}}}}}}}}, where}),
		message(bson.D{{Key: "aggregate", Value: "c"}, {Key: "cursor", Value: bson.D{}}, {Key: "pipeline", Value: bson.A{
			bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$a"}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}}}}, where}),
		message(bson.D{{Key: "createIndexes", Value: "c"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "a", Value: 1}}}, {Key: "name", Value: "a"}}}}, where}),
	}
}

func dial(t *testing.T, s *testkit.Server) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port))
	if err != nil {
		t.Fatalf("the server is gone: %v\n%s", err, s.Output())
	}
	return nc
}

// TestGarbage sends what is no message, and damaged messages, while another
// client works on undisturbed.
func TestGarbage(t *testing.T) {
	s := testkit.Start(t)
	good := s.Client().Database("good").Collection("c")
	if _, err := good.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	undisturbed := func() {
		t.Helper()
		if n, err := good.CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 {
			t.Fatalf("the other client counts %d: %v", n, err)
		}
	}
	for name, b := range garbage() {
		before := strings.Count(s.Output(), `"id":22988`)
		nc := dial(t, s)
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		_ = nc.SetReadDeadline(time.Now().Add(closeTime))
		if rest, err := io.ReadAll(nc); len(rest) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v, answered %q", name, err, rest)
		}
		_ = nc.Close()
		got := before
		for end := time.Now().Add(closeTime); got == before && time.Now().Before(end); got = strings.Count(s.Output(), `"id":22988`) {
			runtime.Gosched() // the line is on its way to us
		}
		if got != before+1 {
			t.Errorf("%s: %d lines in the log", name, got-before)
		}
		undisturbed()
	}
	r := rand.New(rand.NewPCG(20261121, 1))
	messages := valid()
	for i := range mutations {
		send(t, s, mutate(r, messages[r.IntN(len(messages))]))
		if i%100 == 0 {
			undisturbed()
		}
	}
	undisturbed()
	if strings.Contains(s.Output(), "panic") {
		t.Errorf("something panicked:\n%s", s.Output())
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// send writes b and reads what comes back, if anything does.
func send(t *testing.T, s *testkit.Server, b []byte) {
	nc := dial(t, s)
	defer nc.Close()
	if _, err := nc.Write(b); err != nil {
		return // it has been shown the door
	}
	_ = nc.(*net.TCPConn).CloseWrite()
	_ = nc.SetReadDeadline(time.Now().Add(answerTime))
	_, _ = io.Copy(io.Discard, nc)
}

// mutate damages a message in one to four places; half of the time it repairs
// the length, so that what lies behind the header is read.
func mutate(r *rand.Rand, m []byte) []byte {
	b := bytes.Clone(m)
	for range 1 + r.IntN(4) {
		at := r.IntN(len(b))
		switch r.IntN(5) {
		case 0:
			b[at] = byte(r.Uint32())
		case 1:
			b[at] ^= 1 << r.IntN(8)
		case 2: // cut out
			b = append(b[:at], b[min(len(b), at+1+r.IntN(8)):]...)
		case 3: // put in
			b = append(b[:at], append([]byte{byte(r.Uint32()), byte(r.Uint32())}, b[at:]...)...)
		case 4: // another number
			if at+4 <= len(b) {
				binary.LittleEndian.PutUint32(b[at:], []uint32{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 16 << 20}[r.IntN(6)])
			}
		}
		if len(b) == 0 {
			b = []byte{0}
		}
	}
	if len(b) >= 4 && r.IntN(2) == 0 {
		binary.LittleEndian.PutUint32(b, uint32(len(b)))
	}
	return b
}
