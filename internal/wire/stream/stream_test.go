package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pair is two sides of a socket in memory; the far one calls opened.
func pair(t *testing.T, opened func(*Stream)) (near, far *Session) {
	t.Helper()
	a, b := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		preface := make([]byte, len(Preface))
		if _, err := io.ReadFull(b, preface); err != nil || string(preface) != Preface {
			t.Errorf("%q %v", preface, err)
		}
		far = NewServer(b, opened)
		far.Serve()
	}()
	near = Dial(a)
	t.Cleanup(func() {
		_ = near.Close()
		<-served
	})
	return near, far
}

// echo sends back what comes, until the stream ends.
func echo(all *sync.WaitGroup) func(*Stream) {
	return func(m *Stream) {
		all.Go(func() {
			_, _ = io.Copy(m, struct{ io.Reader }{m})
			_ = m.Close()
		})
	}
}

func open(t *testing.T, s *Session) *Stream {
	t.Helper()
	m, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestStreamsApart: what many streams send and get does not mix, whatever the sizes, and
// whichever of them end in between (invariant streams apart).
func TestStreamsApart(t *testing.T) {
	var echoes, users sync.WaitGroup
	near, _ := pair(t, echo(&echoes))
	for i := range 20 {
		users.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 20 {
				m, err := near.Open()
				if err != nil {
					t.Error(err)
					return
				}
				for range 1 + r.IntN(3) {
					n := 1 + r.IntN(200)
					if r.IntN(10) == 0 {
						n = r.IntN(3 * MaxFrame)
					}
					want := bytes.Repeat([]byte{byte(i), byte(n)}, n/2+1)
					if _, err := m.Write(want); err != nil {
						t.Error(err)
					}
					got := make([]byte, len(want))
					if _, err := io.ReadFull(m, got); err != nil || !bytes.Equal(got, want) {
						t.Errorf("stream %d of %d bytes: %v", i, n, err)
					}
				}
				if r.IntN(4) == 0 { // leaves while an answer is on its way
					_, _ = m.Write(make([]byte, 300))
				}
				_ = m.Close()
			}
		})
	}
	users.Wait()
	_ = near.Close()
	echoes.Wait()
	if _, err := near.Open(); err == nil {
		t.Error("a stream was opened on a session that has ended")
	}
}

// TestEnds: each side sees the end of a stream by the other one, after what came before it.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accepted := make(chan *Stream, 2)
		near, _ := pair(t, func(m *Stream) { accepted <- m })
		a, b := open(t, near), open(t, near)
		_, _ = a.Write([]byte("a"))
		_, _ = b.Write([]byte("b"))
		farA, farB := <-accepted, <-accepted
		_, _ = farA.Write([]byte("last"))
		_ = farA.Close()
		if got, err := io.ReadAll(a); err != nil || string(got) != "last" {
			t.Errorf("%q %v", got, err)
		}
		if _, err := a.Write([]byte("late")); err == nil {
			t.Error("wrote to a stream that the other side has ended")
		}
		if farB.HungUp() {
			t.Error("the end of one stream ended another")
		}
		_ = b.Close()
		synctest.Wait()
		if !farB.HungUp() {
			t.Error("the end of a stream was not heard")
		}
		c := open(t, near)
		_, _ = c.Write([]byte("c"))
		farC := <-accepted
		_ = near.Close()
		if got, err := io.ReadAll(farC); string(got) != "c" || err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%q %v", got, err)
		}
	})
}

// TestDeadlines: Read ends with its deadline and with done, and goes on after them.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accepted := make(chan *Stream, 1)
		near, _ := pair(t, func(m *Stream) { accepted <- m })
		m := open(t, near)
		_, _ = m.Write([]byte("x"))
		far := <-accepted
		began := time.Now()
		_ = m.SetDeadline(began.Add(time.Second))
		one := make([]byte, 1)
		if _, err := m.Read(one); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		_ = m.SetDeadline(time.Time{})
		done := make(chan struct{})
		m.Until(done)
		go func() {
			time.Sleep(time.Second)
			close(done)
		}()
		if _, err := m.Read(one); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		m.Until(nil)
		go func() {
			time.Sleep(time.Second)
			_ = m.SetReadDeadline(time.Unix(1, 0)) // of a reader that waits already
		}()
		if _, err := m.Read(one); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		_ = m.SetReadDeadline(time.Time{})
		_, _ = far.Write([]byte("y"))
		if _, err := m.Read(one); err != nil || one[0] != 'y' {
			t.Errorf("%q %v", one, err)
		}
	})
}

// TestBounded: who sends a server more than it reads ends his session, and a server waits
// for a client that does not read, without an end to its other streams (invariant bounded).
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accepted := make(chan *Stream, 1)
		near, _ := pair(t, func(m *Stream) { accepted <- m })
		m := open(t, near)
		_, _ = m.Write([]byte("x"))
		far := <-accepted
		written := make(chan struct{})
		const much = 4 * (maxUnread + maxUnsent)
		go func() {
			defer close(written)
			_, _ = far.Write(make([]byte, much))
		}()
		synctest.Wait()
		select {
		case <-written:
			t.Error("the server did not wait for its client")
		default:
		}
		if n, err := io.ReadFull(m, make([]byte, much)); err != nil {
			t.Error(n, err)
		}
		<-written
		_, _ = m.Write(make([]byte, 2*maxUnread+2*MaxFrame))
		synctest.Wait()
		if near.Err() == nil || !far.HungUp() {
			t.Error("a server keeps what is sent without a bound")
		}
	})
}

// TestDrain: a session that is drained takes no other streams, and ends behind the last
// bytes of those that it has.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		accepted := make(chan *Stream, 2)
		near := Dial(a)
		_, _ = io.ReadFull(b, make([]byte, len(Preface)))
		far := NewServer(b, func(m *Stream) { accepted <- m })
		go far.Serve()
		m := open(t, near)
		_, _ = m.Write([]byte("x"))
		stays := <-accepted
		far.Drain()
		late := open(t, near)
		_, _ = late.Write([]byte("late"))
		if _, err := io.ReadAll(late); err != nil {
			t.Error(err)
		}
		_, _ = stays.Write(make([]byte, MaxFrame/2))
		_ = stays.Close()
		if got, err := io.ReadAll(m); err != nil || len(got) != MaxFrame/2 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		synctest.Wait()
		if near.Err() == nil || far.Err() == nil {
			t.Error("the session outlives its last stream")
		}
		_ = near.Close()
	})
}

// FuzzReceive: whatever a peer sends, a side ends, or waits for more.
func FuzzReceive(f *testing.F) {
	frame := func(id uint32, n int) []byte {
		b := binary.LittleEndian.AppendUint32(nil, id)
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
		if n == opens {
			return b
		}
		return append(b, make([]byte, max(0, min(n, MaxFrame)))...)
	}
	f.Add(slices.Concat(frame(1, opens), frame(1, 3), frame(1, 0)), true)
	f.Add(slices.Concat(frame(3, opens), frame(7, opens), frame(7, MaxFrame), frame(3, 1)), true)
	f.Add(slices.Concat(frame(7, opens), frame(3, opens)), true)
	f.Add(frame(1, 3), true)
	f.Add(frame(1, MaxFrame+1), true)
	f.Add(frame(1, -1), false)
	f.Add(frame(1, 5)[:9], false)
	f.Fuzz(func(t *testing.T, sent []byte, server bool) {
		a, b := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, a) }()
		s := newSession(b)
		if server {
			s.opened = func(m *Stream) { _ = m.Close() }
		} else if _, err := s.Open(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Serve()
		}()
		_, _ = a.Write(sent)
		_ = a.Close()
		<-done
		if s.Err() == nil {
			t.Error("a session outlives its socket")
		}
	})
}
