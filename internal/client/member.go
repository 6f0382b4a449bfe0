package client

import (
	"context"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/wire/stream"
)

const (
	// maxConnections bounds the connections to one member; further callers wait.
	maxConnections = 500
	// idleTime is how long an idle connection is kept.
	idleTime = 5 * time.Minute
	// helloTime is the timeout of a monitor's hello.
	helloTime = 5 * time.Second
	// heartbeat is the interval between two checks of a member, failedPause the one after a
	// failed check, or while a caller waits for a member.
	heartbeat   = 10 * time.Second
	failedPause = 250 * time.Millisecond
	// maxStreamed bounds the arguments of a call, in bytes, that shares a socket with
	// others (package stream). Servers take memory for larger ones, which they may have to
	// wait for.
	maxStreamed = 32 << 10
	// processorsASocket is for how many processors of this machine there is one socket for
	// streams to a member: what a socket brings is handed on by one goroutine.
	processorsASocket = 4
)

// role is the role of a member at its last check.
type role uint8

const (
	roleUnknown role = iota
	rolePrimary
	roleSecondary
	roleOther // reachable, but neither primary nor secondary
)

// member is one server of a Set: its state and the connections to it. The fields from hello
// are guarded by the Set's lock, connections by their own.
type member struct {
	address string
	options Options

	role      role
	election  [12]byte // electionId, of a primary
	version   int64    // setVersion
	tags      bson.Doc
	lastWrite time.Time
	seen      time.Time     // time of the last reply to hello
	took      time.Duration // moving average of hello's round-trip time
	failure   error         // why the role is unknown

	stop context.CancelFunc // ends the monitor
	kick chan struct{}      // triggers a check at once

	slots chan struct{} // one for each connection in use
	dials chan struct{} // held while a socket for streams is opened
	pool  pool
}

// pool is the connections to a member that are not in use.
type pool struct {
	sync.Mutex
	idle     idleConns
	streams  idleConns // those that share sockets
	sessions []*stream.Session
	retired  []*stream.Session // which end with the last call on them
	next     int               // index in sessions of the next stream
	life     int               // incremented when all connections are lost
	created  int64             // connections that were made
	closed   bool
}

// idleLocked are those of one kind.
func (p *pool) idleLocked(streams bool) *idleConns {
	if streams {
		return &p.streams
	}
	return &p.idle
}

type idleConn struct {
	conn *Conn
	life int
	used time.Time
}

// idleConns are connections that nobody uses, the most recently used last.
type idleConns []idleConn

// pop takes out the last one; its conn is nil if there is none.
func (l *idleConns) pop() (c idleConn) {
	if n := len(*l); n > 0 {
		c = (*l)[n-1]
		*l = (*l)[:n-1]
	}
	return c
}

// cut takes out those that have not been used since a time; all for the zero time.
func (l *idleConns) cut(since time.Time) idleConns {
	n := 0
	for n < len(*l) && (since.IsZero() || (*l)[n].used.Before(since)) {
		n++
	}
	gone := slices.Clone((*l)[:n])
	*l = append((*l)[:0], (*l)[n:]...)
	return gone
}

func newMember(address string, o Options) *member {
	o.Address = address
	m := &member{address: address, options: o, kick: make(chan struct{}, 1), slots: make(chan struct{}, maxConnections), dials: make(chan struct{}, 1)}
	m.pool.sessions = make([]*stream.Session, max(1, runtime.GOMAXPROCS(0)/processorsASocket))
	return m
}

// has reports whether m has all of the tags.
func (m *member) has(tags bson.Doc) bool {
	for name, v := range tags.All() {
		if got := m.tags.Lookup(name); got.Type != bson.TypeString || v.Type != bson.TypeString || got.Str() != v.Str() {
			return false
		}
	}
	return true
}

// take returns a connection for exclusive use until give. A small call may share a socket
// with others. Errors: those of Connect, the cause of ctx's end.
func (m *member) take(ctx context.Context, small bool) (*Conn, int, error) {
	select {
	case m.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	small = small && m.options.TLS == nil && !strings.HasPrefix(m.options.Address, "/")
	p := &m.pool
	p.Lock()
	life := p.life
	if c := p.idleLocked(small).pop(); c.conn != nil {
		p.Unlock()
		return c.conn, c.life, nil
	}
	p.Unlock()
	var c *Conn
	var err error
	if small {
		c, life, err = m.connectStream(ctx)
	} else {
		c, err = Connect(ctx, m.options)
	}
	if err != nil {
		<-m.slots
		return nil, 0, err
	}
	p.Lock()
	p.created++
	p.Unlock()
	return c, life, nil
}

// connectStream is Connect on a socket that it shares with others.
func (m *member) connectStream(ctx context.Context) (*Conn, int, error) {
	opened, life, err := m.openStream(ctx)
	if err != nil {
		return nil, 0, err
	}
	c, err := connectOn(ctx, opened, m.options)
	return c, life, err
}

// openStream opens a stream on the next socket, and that if it is not open.
func (m *member) openStream(ctx context.Context) (*stream.Stream, int, error) {
	select {
	case m.dials <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	defer func() { <-m.dials }()
	p := &m.pool
	p.Lock()
	life, i := p.life, p.next
	p.next = (i + 1) % len(p.sessions)
	session := p.sessions[i]
	p.Unlock()
	if session == nil || session.Err() != nil {
		nc, err := dial(ctx, m.options)
		if err != nil {
			return nil, 0, err
		}
		session = stream.Dial(nc)
		p.Lock()
		if p.closed {
			p.Unlock()
			_ = session.Close()
			return nil, 0, net.ErrClosed
		}
		life, p.sessions[i] = p.life, session
		p.Unlock()
	}
	opened, err := session.Open()
	return opened, life, err
}

// give returns a connection to the pool.
func (m *member) give(c *Conn, life int) {
	defer func() { <-m.slots }()
	p := &m.pool
	p.Lock()
	if c.broken != nil || p.closed || life != p.life {
		p.Unlock()
		_ = c.Close()
		return
	}
	idle := p.idleLocked(c.stream != nil)
	*idle = append(*idle, idleConn{c, life, time.Now()})
	p.Unlock()
}

// drop closes the idle connections, and those in use once they are given back: if one
// connection has broken, the others have as well.
func (m *member) drop() {
	m.pool.Lock()
	m.pool.life++
	m.pool.Unlock()
	m.retire()
}

// retire closes the idle connections, and has each socket of streams end with the last call
// on it.
func (m *member) retire() {
	p := &m.pool
	p.Lock()
	p.retired = slices.DeleteFunc(p.retired, func(s *stream.Session) bool { return s.Err() != nil })
	for i, s := range p.sessions {
		if s != nil {
			p.retired = append(p.retired, s)
			p.sessions[i] = nil
		}
	}
	draining := slices.Clone(p.retired)
	p.Unlock()
	for _, s := range draining {
		s.Drain()
	}
	m.closeIdle(time.Time{})
}

// closeIdle closes connections that have been idle since before a time; all for the zero
// time.
func (m *member) closeIdle(then time.Time) {
	p := &m.pool
	p.Lock()
	gone := append(p.idle.cut(then), p.streams.cut(then)...)
	p.Unlock()
	for _, c := range gone {
		_ = c.conn.Close()
	}
}

// tend closes connections that have been idle for idleTime.
func (m *member) tend() { m.closeIdle(time.Now().Add(-idleTime)) }

// close ends the monitor and closes the connections, those in use once they are given back.
func (m *member) close() {
	m.stop()
	m.pool.Lock()
	m.pool.closed = true
	m.pool.Unlock()
	m.retire()
}

// end ends the calls that share sockets, after close.
func (m *member) end() {
	m.pool.Lock()
	all := slices.Clone(m.pool.retired)
	m.pool.Unlock()
	for _, s := range all {
		_ = s.Close()
	}
}

// checkNow makes the monitor check at once.
func (m *member) checkNow() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}
