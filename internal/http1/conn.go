package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readBuffer is the buffer of a connection, in bytes: most requests fit.
	readBuffer = 8 << 10
	// keptBody is the longest body whose memory is kept for the next, in bytes.
	keptBody = 64 << 10
	// maxDrained is how much of a body that nobody read is read to keep the
	// connection, in bytes.
	maxDrained = 256 << 10
	// watchAfter is how long a handler takes before somebody looks whether its
	// client is still there.
	watchAfter = time.Second
	// lingering is how long a connection that ends with a body unread lets the
	// client read its answer.
	lingering = 500 * time.Millisecond
)

// The states of a connection.
const (
	idle int32 = iota
	active
	stopped
)

// conn is one connection.
type conn struct {
	s     *Server
	nc    net.Conn
	limit io.LimitedReader // of the header, below r
	r     *bufio.Reader
	state atomic.Int32

	deadline time.Time // of reads, as it was set last
	request  *http.Request
	simple   simpleReader
	w        response
	body     memoryBody
	bodyRoom []byte

	cancel context.CancelFunc
	timer  *time.Timer // runs watch

	mu       sync.Mutex
	watched  bool          // the handler runs, and reads the connection no more
	watching chan struct{} // closed when watch ends; nil while none runs
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc}
	c.limit.R = nc
	c.r = bufio.NewReaderSize(&c.limit, readBuffer)
	c.w.nc = nc
	return c
}

// stopIdle ends a connection that has no request.
func (c *conn) stopIdle() {
	if c.state.CompareAndSwap(idle, stopped) {
		_ = c.nc.Close()
	}
}

// serve answers the requests of the connection, one after the other.
func (c *conn) serve(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(ctx)
	defer c.cancel()
	state, err := c.s.handshake(ctx, c.nc)
	if err != nil {
		return
	}
	c.request = (&http.Request{}).WithContext(ctx)
	c.request.TLS = state
	c.timer = time.AfterFunc(time.Hour, c.watch)
	c.timer.Stop()
	defer c.timer.Stop()
	for c.next() {
		if c.s.closed() {
			return
		}
		c.state.Store(idle)
		if c.s.closed() {
			return
		}
	}
}

// next answers the next request; false ends the connection.
func (c *conn) next() bool {
	c.limit.N = int64(c.s.MaxHeader) + readBuffer
	if c.r.Buffered() == 0 {
		c.extend(time.Now())
		if _, err := c.r.Peek(1); err != nil {
			return false
		}
	}
	if !c.state.CompareAndSwap(idle, active) {
		return false
	}
	r, err := c.read()
	if err != nil {
		c.refuse(err)
		return false
	}
	c.limit.N = 1<<63 - 1
	streamed, err := c.readBody(r)
	if err != nil {
		return false
	}
	c.w.begin(r, streamed)
	if !streamed {
		c.watchFor()
	}
	ok := c.s.handle(&c.w, r)
	if !streamed {
		c.unwatch()
	}
	if !ok {
		return false
	}
	rest := streamed && !drained(r.Body)
	if err := c.w.finish(rest); err != nil {
		return false
	}
	if rest {
		c.linger()
	}
	return !rest && !r.Close
}

// extend moves the deadline of reads where it has come nearer than half the
// time that a connection may wait.
func (c *conn) extend(now time.Time) {
	if c.deadline.Sub(now) < c.s.IdleTimeout/2 {
		c.deadline = now.Add(c.s.IdleTimeout)
		_ = c.nc.SetReadDeadline(c.deadline)
	}
}

// read reads a request's header, of which one byte is there.
func (c *conn) read() (*http.Request, error) {
	if head := c.header(); head != nil && c.simple.read(head, c.request) {
		_, err := c.r.Discard(len(head))
		return c.request, err
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(c.s.HeaderTimeout))
	c.deadline = time.Time{}
	r, err := http.ReadRequest(c.r)
	if err != nil {
		return nil, err
	}
	if c.limit.N <= readBuffer {
		return nil, errHeader
	}
	if r.Host == "" && r.ProtoAtLeast(1, 1) {
		return nil, errHost
	}
	r.Close = r.Close || !r.ProtoAtLeast(1, 1)
	c.extend(time.Now())
	r.TLS, r.RemoteAddr = c.request.TLS, c.nc.RemoteAddr().String()
	return r.WithContext(c.request.Context()), nil
}

// header is the header of the next request where all of it is in the buffer,
// with the empty line at its end, else nil.
func (c *conn) header() []byte {
	b, err := c.r.Peek(c.r.Buffered())
	if err != nil {
		return nil
	}
	end := bytes.Index(b, headerEnd)
	if end < 0 || end > c.s.MaxHeader {
		return nil
	}
	return b[:end+len(headerEnd)]
}

var headerEnd = []byte("\r\n\r\n")

var (
	errHeader = errors.New("the header is too long")
	errHost   = errors.New("the header has no Host")
)

// refuse answers what is no request.
func (c *conn) refuse(err error) {
	status := "400 Bad Request"
	if errors.Is(err, errHeader) || errors.Is(err, io.ErrUnexpectedEOF) && c.limit.N <= 0 {
		status = "431 Request Header Fields Too Large"
	} else if errors.Is(err, io.EOF) || isTimeout(err) {
		return
	}
	_, _ = io.WriteString(c.nc, "HTTP/1.1 "+status+"\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	c.linger()
}

// readBody reads the body, if its length is known and bounded; streamed says
// that the handler reads it.
func (c *conn) readBody(r *http.Request) (streamed bool, err error) {
	if r.Header["Expect"] != nil && r.ProtoAtLeast(1, 1) && r.ContentLength != 0 {
		if _, err := io.WriteString(c.nc, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return false, err
		}
	}
	n := r.ContentLength
	if n < 0 || n > c.s.MaxBody {
		if r == c.request {
			r.Body = io.NopCloser(io.LimitReader(c.r, n))
		}
		return true, nil
	}
	b := c.bodyRoom
	if int64(cap(b)) < n {
		b = make([]byte, n)
		if n <= keptBody {
			c.bodyRoom = b
		}
	}
	b = b[:n]
	if _, err := io.ReadFull(c.r, b); err != nil {
		return false, err
	}
	c.body = memoryBody{b: b}
	r.Body = &c.body
	return false, nil
}

// drained reads what is left of a body, and says whether that was all.
func drained(b io.ReadCloser) bool {
	n, err := io.CopyN(io.Discard, b, maxDrained)
	return errors.Is(err, io.EOF) && n < maxDrained
}

// linger lets the client read the answer before the connection ends, which
// with a request half read would take it away.
func (c *conn) linger() {
	if t, ok := c.nc.(interface{ CloseWrite() error }); !ok || t.CloseWrite() != nil {
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(lingering))
	_, _ = io.Copy(io.Discard, c.nc)
}

// watchFor lets watch look after the client, from watchAfter on.
func (c *conn) watchFor() {
	c.mu.Lock()
	c.watched = true
	c.mu.Unlock()
	c.timer.Reset(watchAfter)
}

// watch reads ahead while the handler runs, and cancels the request's context
// where that finds that the client is gone.
func (c *conn) watch() {
	c.mu.Lock()
	if !c.watched || c.watching != nil {
		c.mu.Unlock()
		return
	}
	done := make(chan struct{})
	c.watching = done
	_ = c.nc.SetReadDeadline(time.Time{})
	c.mu.Unlock()
	defer close(done)
	if _, err := c.r.Peek(1); err != nil && !isTimeout(err) {
		c.cancel()
	}
}

// unwatch ends watch.
func (c *conn) unwatch() {
	c.timer.Stop()
	c.mu.Lock()
	c.watched = false
	done := c.watching
	c.watching = nil
	if done != nil {
		c.deadline = time.Unix(1, 0)
		_ = c.nc.SetReadDeadline(c.deadline)
	}
	c.mu.Unlock()
	if done != nil {
		<-done
		c.extend(time.Now())
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// memoryBody is a body that has been read.
type memoryBody struct {
	b  []byte
	at int
}

func (m *memoryBody) Read(p []byte) (int, error) {
	if m.at == len(m.b) {
		return 0, io.EOF
	}
	n := copy(p, m.b[m.at:])
	m.at += n
	return n, nil
}

func (m *memoryBody) Close() error { return nil }

// Bytes is all of the body, until the handler returns.
func (m *memoryBody) Bytes() []byte { return m.b }
