package server

import (
	"encoding/binary"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
)

// padded is a request as bytes, with n bytes of padding.
func padded(t *testing.T, n int) []byte {
	m := wire.Message{RequestID: 1, OpCode: wire.OpMsg, Compressor: wire.None, Body: new(bson.Builder).Int32("count", 3).Binary("pad", 0, make([]byte, n)).Finish()}
	b, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWhoHasNotAuthenticatedSendsSmallMessages(t *testing.T) {
	o := options(t)
	o.Security.Authorization = true
	s, _ := start(t, o, newFake())
	small := dial(t, s)
	if _, err := small.Write(padded(t, memory.FreeRequest-200)); err != nil {
		t.Fatal(err)
	}
	small.receive()
	large := dial(t, s)
	if _, err := large.Write(padded(t, memory.FreeRequest)[:wire.HeaderLen]); err != nil {
		t.Fatal(err)
	}
	if !large.ended() {
		t.Error("a large message is waited for")
	}
	packed := dial(t, s)
	packed.send(1, wire.Message{Body: new(bson.Builder).Int32("count", 3).Binary("pad", 0, make([]byte, 1<<20)).Finish(), Compressor: wire.Zlib})
	if !packed.ended() {
		t.Error("a large message is unpacked")
	}
}

// TestUnfinishedMessagesAreBounded: many clients send large messages, and stop
// in the middle.
func TestUnfinishedMessagesAreBounded(t *testing.T) {
	message := padded(t, 10<<20)
	const clients = 30
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, _ := newTestServer(t, options(t), f)
		s.maxConnections, s.app, s.memory = clients+1, &App{Dispatcher: f}, memory.NewBudget(memory.MinBudget)
		l := &pipes{c: make(chan net.Conn), closed: make(chan struct{})}
		stopped := make(chan error, 1)
		go func() {
			s.serve(t.Context(), []net.Listener{l})
			stopped <- s.stopConnections()
		}()
		connect := func() *peer {
			near, far := net.Pipe()
			l.c <- far
			return &peer{t, near, wire.NewReader(near)}
		}
		goOn, answers := make(chan struct{}), make(chan int32)
		for range clients {
			p := connect()
			go func() {
				_, err := p.Write(message[:len(message)-1])
				<-goOn
				if err == nil {
					_, err = p.Write(message[len(message)-1:])
				}
				if err != nil {
					answers <- -1
					return
				}
				f, err := p.r.Next()
				if err != nil {
					answers <- -1
					return
				}
				m, err := wire.Parse(f)
				if err != nil {
					answers <- -1
					return
				}
				answers <- int32(bson.ClampToInt64(m.Body.Lookup("code")))
			}()
		}
		time.Sleep(time.Second)
		held := s.memory.Stats().Requests
		if held.Held > memory.MinBudget/2 || held.Held < 10<<20 || held.Waiting == 0 {
			t.Errorf("%+v", held)
		}
		p := connect()
		p.send(1, wire.Message{Body: one("ping")})
		p.receive()
		_ = p.Close()

		time.Sleep(time.Minute)
		if got := s.memory.Stats().Requests; got.Refused == 0 || got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
		close(goOn)
		outcomes := map[int32]int{}
		for range clients {
			outcomes[<-answers]++
		}
		if outcomes[0] == 0 || outcomes[int32(mongoerr.ExceededMemoryLimit)] == 0 || len(outcomes) != 2 {
			t.Errorf("answers by code: %v", outcomes)
		}
		synctest.Wait()
		if got := s.memory.Stats().Requests.Held; got != 0 {
			t.Errorf("%d bytes are still held", got)
		}
		s.Stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// TestADrippingMessageGivesWay: who sends a large message too slowly loses the
// connection once others wait for the memory.
func TestADrippingMessageGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, _ := newTestServer(t, options(t), f)
		s.maxConnections, s.app, s.memory = 10, &App{Dispatcher: f}, memory.NewBudget(memory.MinBudget)
		near, far := net.Pipe()
		l := s.newLink(far, 1, "")
		c := newConnection(l, l)
		go func() { defer far.Close(); c.serve() }()
		head := make([]byte, wire.HeaderLen, 300<<10)
		binary.LittleEndian.PutUint32(head, 1<<20)
		binary.LittleEndian.PutUint32(head[12:], uint32(wire.OpMsg))
		if _, err := near.Write(head[:cap(head)]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := near.Write([]byte{0}); err != nil {
			t.Errorf("nobody waits, and yet: %v", err)
		}
		var elder, other memory.Request
		elder.Open(s.memory)
		other.Open(s.memory)
		if err := elder.Set(t.Context(), 90<<20); err != nil {
			t.Fatal(err)
		}
		go func() { _ = other.Set(t.Context(), 90<<20) }()
		time.Sleep(2 * lateStep)
		if _, err := near.Write([]byte{0}); err == nil {
			t.Error("it goes on")
		}
		elder.Release()
		synctest.Wait()
		other.Release()
		s.end()
	})
}
