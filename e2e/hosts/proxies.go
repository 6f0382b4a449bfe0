package hosts

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// proxyPause is how often a connection looks whether it is still cut.
const proxyPause = 10 * time.Millisecond

// proxies stand before members that share the loopback: for where there are no hosts.
// They do not know who connects, so a member hears nothing at all where one way to it is
// cut, and all is late where one way to it is slow. Bytes of TCP cannot be lost: instead a
// connection breaks.
type proxies struct {
	ways
	members []*proxy
}

// proxy passes on what comes for one member.
type proxy struct {
	listener  net.Listener
	port      int // of the member
	condition atomic.Pointer[Condition]
	work      sync.WaitGroup
	mu        sync.Mutex
	open      map[net.Conn]bool // nil: closed
}

func newProxies(t *testing.T, n int) *proxies {
	t.Helper()
	p := &proxies{}
	p.changed = func(w *ways) {
		for to, m := range p.members {
			var worst Condition
			for from := range n + 1 {
				worst = worst.worse(w.now(from, to))
			}
			m.condition.Store(&worst)
		}
	}
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m := &proxy{listener: l, port: testkit.FreePort(t), open: map[net.Conn]bool{}}
		m.condition.Store(&Condition{})
		m.work.Go(m.accept)
		p.members = append(p.members, m)
	}
	return p
}

func (p *proxies) Apart() bool          { return false }
func (p *proxies) String() string       { return "processes behind proxies" }
func (p *proxies) Address(i int) string { return p.members[i].listener.Addr().String() }
func (p *proxies) Listen(i int) []string {
	return []string{"--port", fmt.Sprint(p.members[i].port), "--advertise", p.Address(i)}
}
func (p *proxies) Start(_ int, cmd *exec.Cmd) error { return cmd.Start() }

func (p *proxies) close() {
	for _, m := range p.members {
		_ = m.listener.Close()
		m.mu.Lock()
		for c := range m.open {
			_ = c.Close()
		}
		m.open = nil
		m.mu.Unlock()
		m.work.Wait()
	}
}

// keep notes a connection, to close it in the end; false where the end has come.
func (m *proxy) keep(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		_ = c.Close()
		return false
	}
	m.open[c] = true
	return true
}

func (m *proxy) done(c net.Conn) {
	_ = c.Close()
	m.mu.Lock()
	delete(m.open, c)
	m.mu.Unlock()
}

func (m *proxy) accept() {
	for {
		c, err := m.listener.Accept()
		if err != nil {
			return
		}
		if m.keep(c) {
			m.work.Go(func() { m.serve(c) })
		}
	}
}

// serve passes on what one client and the member say to each other.
func (m *proxy) serve(client net.Conn) {
	defer m.done(client)
	member, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", m.port))
	if err != nil || !m.keep(member) {
		return
	}
	defer m.done(member)
	var both sync.WaitGroup
	both.Go(func() { m.pass(member, client); _ = member.Close() })
	both.Go(func() { m.pass(client, member); _ = client.Close() })
	both.Wait()
}

// errLost ends a connection where packets would be lost.
var errLost = errors.New("lost")

// pass copies what comes from one side, as the condition has it.
func (m *proxy) pass(to io.Writer, from net.Conn) {
	buf := make([]byte, maxPacket)
	for {
		n, err := from.Read(buf)
		if err == nil {
			err = m.disturb()
		}
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// disturb waits as the condition has it.
func (m *proxy) disturb() error {
	c := m.condition.Load()
	if c.Loss > 0 && rand.Float64() < c.Loss/20 { // a read is many packets
		return errLost
	}
	time.Sleep(c.Delay)
	for m.condition.Load().Cut {
		m.mu.Lock()
		closed := m.open == nil
		m.mu.Unlock()
		if closed {
			return net.ErrClosed
		}
		time.Sleep(proxyPause)
	}
	return nil
}
