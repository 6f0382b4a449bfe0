package stream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"
)

const (
	// Preface is what the side that dials sends first.
	Preface = "MUX1"
	// MaxFrame bounds the bytes of a frame, so that a large message does not hold up the
	// others for long.
	MaxFrame = 64 << 10

	headerLen = 8
	// opens is the length of a frame that opens a stream.
	opens = 1<<32 - 1
	// readBuffer is what one system call receives at the most.
	readBuffer = 64 << 10
	// maxUnsent is from when on writers wait until the socket has taken what they wrote.
	maxUnsent = 256 << 10
	// maxUnread is how much of a stream is kept that its owner has not read yet.
	maxUnread = 256 << 10
	// writeTime is how long the socket may take for what is unsent. Callers do not wait that
	// long unless there is more than maxUnsent.
	writeTime = 30 * time.Second
	// maxKept bounds a buffer that is kept for what comes next.
	maxKept = 256 << 10
)

var (
	errProtocol = errors.New("stream: the peer breaks the protocol")
	errUnread   = errors.New("stream: more than a request was sent on one stream before it was read")
)

// Session is one side of a socket that carries streams. It is safe for concurrent use.
type Session struct {
	nc      net.Conn
	opened  func(*Stream) // of the side that accepts; nil on the other
	waiting sync.WaitGroup

	mu       sync.Mutex
	streams  map[uint32]*Stream
	last     uint32 // the highest number so far
	unsent   []byte
	wake     chan struct{} // to the writer: there is something unsent
	room     sync.Cond     // of mu: the socket has taken what was unsent
	writing  bool          // the socket is taking something
	draining bool
	err      error         // why it has ended
	ended    chan struct{} // closed then
}

func newSession(nc net.Conn) *Session {
	s := &Session{nc: nc, streams: map[uint32]*Stream{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	s.room.L = &s.mu
	return s
}

// Dial begins a session on a connection that nothing was sent on. It owns nc from then on.
func Dial(nc net.Conn) *Session {
	s := newSession(nc)
	s.unsent = append(s.unsent, Preface...)
	s.wake <- struct{}{}
	s.waiting.Go(s.write)
	s.waiting.Go(s.read)
	return s
}

// NewServer returns the other side, of a connection whose Preface has been read. opened is
// called for each new stream; it must not wait.
func NewServer(nc net.Conn, opened func(*Stream)) *Session {
	s := newSession(nc)
	s.opened = opened
	return s
}

// Serve runs the side that NewServer has made to the end of the socket.
func (s *Session) Serve() {
	s.waiting.Go(s.write)
	s.read()
	s.waiting.Wait()
}

// Open opens a stream. Errors: why the session has ended.
func (s *Session) Open() (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if s.draining {
		return nil, net.ErrClosed
	}
	s.last++
	s.frameLocked(s.last, opens, nil)
	return s.addLocked(s.last), nil
}

func (s *Session) addLocked(id uint32) *Stream {
	m := &Stream{session: s, id: id, ready: make(chan struct{}, 1)}
	m.room.L = &m.mu
	s.streams[id] = m
	return m
}

// Err is why the session has ended, nil while it goes on.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the session and all of its streams, and waits for its goroutines.
func (s *Session) Close() error {
	s.end(net.ErrClosed)
	s.waiting.Wait()
	return nil
}

// Drain ends the session as soon as it has no stream. It has no others from then on.
func (s *Session) Drain() {
	s.mu.Lock()
	s.draining = true
	idle := len(s.streams) == 0
	s.mu.Unlock()
	if idle {
		s.end(net.ErrClosed)
	}
}

// end ends the session for a reason (invariant streams apart).
func (s *Session) end(why error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = why
	all := s.streams
	s.streams = nil
	close(s.ended)
	s.room.Broadcast()
	s.mu.Unlock()
	_ = s.nc.Close()
	for _, m := range all {
		m.endedBy(why)
	}
}

// remove forgets a stream that its owner has closed.
func (s *Session) remove(id uint32) {
	s.mu.Lock()
	delete(s.streams, id)
	idle := s.draining && len(s.streams) == 0
	s.mu.Unlock()
	if idle {
		s.flushAndEnd()
	}
}

// flushAndEnd ends a session without streams once what was written has been sent.
func (s *Session) flushAndEnd() {
	s.mu.Lock()
	for s.err == nil && (s.writing || len(s.unsent) > 0) {
		s.room.Wait()
	}
	s.mu.Unlock()
	s.end(net.ErrClosed)
}

// send appends a frame of a stream to what is unsent, and waits if that is too much
// (invariant bounded).
func (s *Session) send(id uint32, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.unsent) > maxUnsent && s.err == nil {
		s.room.Wait()
	}
	if s.err != nil {
		return s.err
	}
	s.frameLocked(id, uint32(len(p)), p)
	return nil
}

// frameLocked appends a frame to what is unsent.
func (s *Session) frameLocked(id, n uint32, p []byte) {
	idle := len(s.unsent) == 0
	s.unsent = binary.LittleEndian.AppendUint32(s.unsent, id)
	s.unsent = binary.LittleEndian.AppendUint32(s.unsent, n)
	s.unsent = append(s.unsent, p...)
	if idle {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// write sends what is unsent. Before each system call it lets the goroutines run that are
// about to write, too.
func (s *Session) write() {
	var out []byte
	for {
		select {
		case <-s.wake:
		case <-s.ended:
			return
		}
		runtime.Gosched()
		s.mu.Lock()
		if s.err != nil {
			s.mu.Unlock()
			return
		}
		if cap(out) > maxKept {
			out = nil
		}
		out, s.unsent, s.writing = s.unsent, out[:0], true
		s.mu.Unlock()
		err := s.nc.SetWriteDeadline(time.Now().Add(writeTime))
		if err == nil {
			_, err = s.nc.Write(out)
		}
		s.mu.Lock()
		s.writing = false
		s.room.Broadcast()
		s.mu.Unlock()
		if err != nil {
			s.end(err)
			return
		}
	}
}

// read hands what arrives to the streams until the socket ends.
func (s *Session) read() {
	s.end(s.receive(bufio.NewReaderSize(s.nc, readBuffer)))
}

func (s *Session) receive(r *bufio.Reader) error {
	var frame []byte
	for {
		head, err := r.Peek(headerLen)
		if err != nil {
			return err
		}
		id, length := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
		_, _ = r.Discard(headerLen) // it is buffered
		if length == opens {
			if err := s.open(id); err != nil {
				return err
			}
			continue
		}
		if length > MaxFrame {
			return errProtocol
		}
		n := int(length)
		var body []byte
		if headerLen+n <= readBuffer/2 {
			if body, err = r.Peek(n); err != nil {
				return unexpected(err)
			}
		} else {
			if frame == nil {
				frame = make([]byte, MaxFrame)
			}
			body = frame[:n]
			if _, err := io.ReadFull(r, body); err != nil {
				return unexpected(err)
			}
			n = 0
		}
		if err := s.received(id, body); err != nil {
			return err
		}
		_, _ = r.Discard(n) // it is buffered
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// open opens a stream of the peer's, or ends it at once if the session drains.
func (s *Session) open(id uint32) error {
	s.mu.Lock()
	if s.opened == nil || id <= s.last {
		s.mu.Unlock()
		return errProtocol
	}
	s.last = id
	if s.err != nil || s.draining {
		s.mu.Unlock()
		return s.send(id, nil)
	}
	m := s.addLocked(id)
	s.mu.Unlock()
	s.opened(m)
	return nil
}

// received hands a frame to its stream. That of a stream which has ended here is dropped.
func (s *Session) received(id uint32, body []byte) error {
	s.mu.Lock()
	m, known := s.streams[id], id <= s.last
	s.mu.Unlock()
	switch {
	case !known:
		return errProtocol
	case m == nil:
		return nil
	case len(body) == 0:
		m.endedBy(io.EOF)
		return nil
	}
	return m.deliver(body, s.opened == nil)
}
