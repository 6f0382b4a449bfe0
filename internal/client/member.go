package client

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

const (
	// maxConnections bounds the connections to one member; who wants more waits.
	maxConnections = 500
	// idleTime is how long a connection is kept that nobody uses.
	idleTime = 5 * time.Minute
	// helloTime is how long a member may take to answer the watch over it.
	helloTime = 5 * time.Second
	// heartbeat is the pause between two looks at a member, failedPause that after one
	// which failed, or where somebody waits for a member.
	heartbeat   = 10 * time.Second
	failedPause = 250 * time.Millisecond
)

// role is what a member was when it was asked last.
type role uint8

const (
	roleUnknown role = iota
	rolePrimary
	roleSecondary
	roleOther // it answers, and serves nobody
)

// member is one server of a Set: what it is, and connections to it. What hello says is
// guarded by the Set's lock, connections by its own.
type member struct {
	address string
	options Options

	role      role
	election  [12]byte // electionId, of a primary
	version   int64    // setVersion
	tags      bson.Doc
	lastWrite time.Time
	seen      time.Time     // when hello was answered
	took      time.Duration // how long that takes, averaged
	failure   error         // why it is unknown

	stop context.CancelFunc // ends the watch over it
	kick chan struct{}      // has it look again at once

	slots chan struct{} // one for each connection in use
	pool  struct {
		sync.Mutex
		idle   []idleConn // the one used last is last
		life   int        // raised where all connections are lost
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

// has says whether m has all of some tags.
func (m *member) has(tags bson.Doc) bool {
	for name, v := range tags.All() {
		if got := m.tags.Lookup(name); got.Type != bson.TypeString || v.Type != bson.TypeString || got.Str() != v.Str() {
			return false
		}
	}
	return true
}

// take is a connection for the caller alone, until give. Errors: those of Connect, the
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

// give takes a connection back.
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

// drop closes the connections that are idle, and those in use once they come back: the
// member has lost one, so it has lost them all.
func (m *member) drop() {
	m.pool.Lock()
	m.pool.life++
	m.closeIdleLocked(time.Time{})
	m.pool.Unlock()
}

// closeIdleLocked closes idle connections that were used before then; all for the zero time.
func (m *member) closeIdleLocked(then time.Time) {
	p := &m.pool
	n := 0
	for n < len(p.idle) && (then.IsZero() || p.idle[n].used.Before(then)) {
		_ = p.idle[n].conn.Close()
		n++
	}
	p.idle = append(p.idle[:0], p.idle[n:]...)
}

// tend closes connections that have been idle for long.
func (m *member) tend() {
	m.pool.Lock()
	m.closeIdleLocked(time.Now().Add(-idleTime))
	m.pool.Unlock()
}

// close ends the watch and the connections.
func (m *member) close() {
	m.stop()
	m.pool.Lock()
	m.pool.closed = true
	m.closeIdleLocked(time.Time{})
	m.pool.Unlock()
}

// look has the watch ask again at once.
func (m *member) look() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}
