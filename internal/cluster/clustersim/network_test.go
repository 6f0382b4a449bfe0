package clustersim

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// errReset is what both ends of a connection see that the network has ended.
var errReset = errors.New("connection reset by the simulated network")

// network connects processes, which listen at "name:port". What is sent arrives in order, as
// on a socket, or the connection ends. Safe for concurrent use.
type network struct {
	seed uint64

	mu        sync.Mutex
	listeners map[string]*listener
	conns     map[*conn]bool
	cut       map[[2]string]bool // from one process to another: nothing arrives
	dialed    uint64
	resets    float64 // the chance that a connection ends with a message, in percent
	slow      float64 // the chance that a message takes long, in percent
	changed   chan struct{}
	stats     struct{ messages, resets, slow int }
}

func newNetwork(seed uint64) *network {
	return &network{seed: seed, listeners: map[string]*listener{}, conns: map[*conn]bool{}, cut: map[[2]string]bool{}, changed: make(chan struct{})}
}

// listener is where a life of a process is reached.
type listener struct {
	n       *network
	address string
	accepts chan *conn
	closed  chan struct{}
	once    sync.Once
}

func (n *network) listen(address string) *listener {
	l := &listener{n: n, address: address, accepts: make(chan *conn, 1000), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[address] = l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepts:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.address) }

type address string

func (a address) Network() string { return "sim" }
func (a address) String() string  { return string(a) }

// end is one direction of a connection.
type end struct {
	from, to string
	rng      *rand.Rand
	parts    []part
	last     time.Time // when the last part arrives
	err      error     // what a reader gets behind the parts
	wake     chan struct{}
}

type part struct {
	at   time.Time
	data []byte
}

// conn is one side of a connection.
type conn struct {
	n        *network
	peer     *conn
	in, out  *end
	deadline time.Time
}

// dial connects a life of a process, or a client, with who listens at an address.
func (n *network) dial(ctx context.Context, from string, owner *life, to string) (net.Conn, error) {
	timer := time.NewTimer(n.latency(rand.New(rand.NewPCG(n.seed, uint64(len(from))))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	host, _, _ := net.SplitHostPort(to)
	for {
		n.mu.Lock()
		l, isCut, changed := n.listeners[to], n.cut[[2]string{from, host}] || n.cut[[2]string{host, from}], n.changed
		if owner != nil && owner.dead {
			n.mu.Unlock()
			return nil, errReset
		}
		if !isCut {
			defer n.mu.Unlock()
			if l == nil {
				return nil, errors.New("connection refused by the simulated network")
			}
			n.dialed++
			a := &end{from: from, to: host, rng: rand.New(rand.NewPCG(n.seed, 2*n.dialed)), wake: make(chan struct{})}
			b := &end{from: host, to: from, rng: rand.New(rand.NewPCG(n.seed, 2*n.dialed+1)), wake: make(chan struct{})}
			near, far := &conn{n: n, in: b, out: a}, &conn{n: n, in: a, out: b}
			near.peer, far.peer = far, near
			n.conns[near], n.conns[far] = true, true
			select {
			case l.accepts <- far:
				return near, nil
			default:
				return nil, errReset
			}
		}
		n.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (n *network) latency(rng *rand.Rand) time.Duration {
	return time.Duration(50+rng.IntN(900)) * time.Microsecond
}

func (e *end) wakeLocked() {
	close(e.wake)
	e.wake = make(chan struct{})
}

func (c *conn) Write(p []byte) (int, error) {
	n := c.n
	n.mu.Lock()
	defer n.mu.Unlock()
	e := c.out
	if e.err != nil || !n.conns[c] {
		return 0, errReset
	}
	n.stats.messages++
	at := time.Now().Add(n.latency(e.rng))
	if n.slow > 0 && e.rng.Float64()*100 < n.slow {
		n.stats.slow++
		at = at.Add(time.Duration(e.rng.IntN(3000)) * time.Millisecond)
	}
	if at.Before(e.last) {
		at = e.last
	}
	e.last = at
	if n.resets > 0 && e.rng.Float64()*100 < n.resets {
		n.stats.resets++
		if e.rng.IntN(2) == 0 { // it arrives, and nothing comes back
			e.parts = append(e.parts, part{at, append([]byte(nil), p...)})
			e.err = io.EOF
			c.in.err, c.in.parts = errReset, nil
			e.wakeLocked()
			c.in.wakeLocked()
			return len(p), nil
		}
		n.breakLocked(c)
		return len(p), nil
	}
	e.parts = append(e.parts, part{at, append([]byte(nil), p...)})
	e.wakeLocked()
	return len(p), nil
}

func (c *conn) Read(p []byte) (int, error) {
	n := c.n
	for {
		n.mu.Lock()
		e := c.in
		now, wait := time.Now(), time.Duration(-1)
		held := n.cut[[2]string{e.from, e.to}]
		if !n.conns[c] {
			n.mu.Unlock()
			return 0, net.ErrClosed
		}
		if len(e.parts) > 0 && !held {
			first := &e.parts[0]
			if !now.Before(first.at) {
				k := copy(p, first.data)
				if first.data = first.data[k:]; len(first.data) == 0 {
					e.parts = e.parts[1:]
				}
				n.mu.Unlock()
				return k, nil
			}
			wait = first.at.Sub(now)
		} else if e.err != nil && !held {
			err := e.err
			n.mu.Unlock()
			return 0, err
		}
		if !c.deadline.IsZero() {
			left := c.deadline.Sub(now)
			if left <= 0 {
				n.mu.Unlock()
				return 0, os.ErrDeadlineExceeded
			}
			if wait < 0 || left < wait {
				wait = left
			}
		}
		wake, changed := e.wake, n.changed
		n.mu.Unlock()
		var timer *time.Timer
		var due <-chan time.Time
		if wait >= 0 {
			timer = time.NewTimer(wait)
			due = timer.C
		}
		select {
		case <-wake:
		case <-changed:
		case <-due:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// breakLocked ends a connection for both sides.
func (n *network) breakLocked(c *conn) {
	for _, e := range []*end{c.in, c.out} {
		if e.err == nil {
			e.err, e.parts = errReset, nil
		}
		e.wakeLocked()
	}
}

func (c *conn) Close() error {
	n := c.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.conns[c] {
		return nil
	}
	delete(n.conns, c)
	if c.out.err == nil {
		c.out.err = io.EOF // behind what was sent
	}
	if c.in.err == nil {
		c.in.err, c.in.parts = errReset, nil
	}
	c.out.wakeLocked()
	c.in.wakeLocked()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return address(c.out.from + ":1") }
func (c *conn) RemoteAddr() net.Addr { return address(c.out.to + ":1") }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	c.deadline = t
	c.in.wakeLocked()
	return nil
}

// SetWriteDeadline has nothing to do: nobody waits to write.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// kill ends what a process has open, and lets nobody reach it.
func (n *network) kill(name, address string, l *life) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.dead = true
	if at := n.listeners[address]; at != nil {
		delete(n.listeners, address)
		_ = at.Close()
	}
	for c := range n.conns {
		if c.out.from == name || c.out.to == name {
			n.breakLocked(c)
		}
	}
}

// cutOff has nothing arrive from one process at another.
func (n *network) cutOff(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]string{from, to}] = true
}

// heal ends all cuts. breaks ends the connections that were held up, in place of delivering
// what was sent.
func (n *network) heal(breaks bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if breaks {
		for c := range n.conns {
			if n.cut[[2]string{c.out.from, c.out.to}] {
				n.breakLocked(c)
			}
		}
	}
	clear(n.cut)
	close(n.changed)
	n.changed = make(chan struct{})
}

// trouble sets the chances that a connection ends with a message, and that one takes long.
func (n *network) trouble(resets, slow float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resets, n.slow = resets, slow
}

// calm ends all trouble.
func (n *network) calm() {
	n.trouble(0, 0)
	n.heal(false)
}
