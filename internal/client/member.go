package client

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
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
	pool  struct {
		sync.Mutex
		idle   []idleConn // most recently used last
		life   int        // incremented when all connections are lost
		closed bool
	}
}

type idleConn struct {
	conn *Conn
	life int
	used time.Time
}

func newMember(address string, o Options) *member {
	o.Address = address
	return &member{address: address, options: o, kick: make(chan struct{}, 1), slots: make(chan struct{}, maxConnections)}
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

// take returns a connection for exclusive use until give. Errors: those of Connect, the
// cause of ctx's end.
func (m *member) take(ctx context.Context) (*Conn, int, error) {
	select {
	case m.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	p := &m.pool
	p.Lock()
	life := p.life
	for n := len(p.idle); n > 0; n = len(p.idle) {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.Unlock()
		return c.conn, c.life, nil
	}
	p.Unlock()
	c, err := Connect(ctx, m.options)
	if err != nil {
		<-m.slots
		return nil, 0, err
	}
	return c, life, nil
}

// give returns a connection to the pool.
func (m *member) give(c *Conn, life int) {
	defer func() { <-m.slots }()
	p := &m.pool
	p.Lock()
	defer p.Unlock()
	if c.broken != nil || p.closed || life != p.life {
		_ = c.Close()
		return
	}
	p.idle = append(p.idle, idleConn{c, life, time.Now()})
}

// drop closes the idle connections, and those in use once they are given back: if one
// connection has broken, the others have as well.
func (m *member) drop() {
	m.pool.Lock()
	m.pool.life++
	m.closeIdleLocked(time.Time{})
	m.pool.Unlock()
}

// closeIdleLocked closes connections that have been idle since before a time; all for the
// zero time.
func (m *member) closeIdleLocked(then time.Time) {
	p := &m.pool
	n := 0
	for n < len(p.idle) && (then.IsZero() || p.idle[n].used.Before(then)) {
		_ = p.idle[n].conn.Close()
		n++
	}
	p.idle = append(p.idle[:0], p.idle[n:]...)
}

// tend closes connections that have been idle for idleTime.
func (m *member) tend() {
	m.pool.Lock()
	m.closeIdleLocked(time.Now().Add(-idleTime))
	m.pool.Unlock()
}

// close ends the monitor and closes the connections.
func (m *member) close() {
	m.stop()
	m.pool.Lock()
	m.pool.closed = true
	m.closeIdleLocked(time.Time{})
	m.pool.Unlock()
}

// checkNow makes the monitor check at once.
func (m *member) checkNow() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}
