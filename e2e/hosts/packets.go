package hosts

import (
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPacket is the largest packet that a host sends.
	maxPacket = 16 << 10
	// maxDelayed bounds the packets that are on their way from one host to another; more
	// are lost, as a router would lose them.
	maxDelayed = 4096
)

// Condition is how the way from one host to another is.
type Condition struct {
	Cut   bool
	Loss  float64       // share of the packets that are lost
	Delay time.Duration // of each packet, and up to as much again by chance
}

// worse is how a way is that two things disturb.
func (c Condition) worse(o Condition) Condition {
	return Condition{c.Cut || o.Cut, max(c.Loss, o.Loss), max(c.Delay, o.Delay)}
}

// ways are the conditions between n hosts: what is imposed on a way counts until it is
// lifted.
type ways struct {
	mu      sync.Mutex
	imposed map[int]imposition
	next    int
	changed func(w *ways) // called with mu held
}

type imposition struct {
	from, to int
	Condition
}

// Impose implements Network.
func (w *ways) Impose(from, to int, c Condition) (lift func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.imposed == nil {
		w.imposed = map[int]imposition{}
	}
	id := w.next
	w.next++
	w.imposed[id] = imposition{from, to, c}
	w.changed(w)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.imposed, id)
		w.changed(w)
	}
}

// now is the condition of the way between two hosts. The caller holds mu.
func (w *ways) now(from, to int) (c Condition) {
	for _, i := range w.imposed {
		if i.from == from && i.to == to {
			c = c.worse(i.Condition)
		}
	}
	return c
}

// packets carries IPv4 packets between hosts. The last byte of a host's address is its
// place among the ports, plus one.
type packets struct {
	ways
	ports []io.ReadWriteCloser
	links [][]*packetLink
	work  sync.WaitGroup
}

// packetLink is the way from one host to another.
type packetLink struct {
	condition atomic.Pointer[Condition]
	waiting   atomic.Int64 // in queue, or on the way out of it
	queue     chan delayed
}

type delayed struct {
	due    time.Time
	packet []byte
}

// carry begins to carry packets between ports, until close.
func carry(ports []io.ReadWriteCloser) *packets {
	p := &packets{ports: ports}
	p.changed = func(w *ways) {
		for from, row := range p.links {
			for to, l := range row {
				c := w.now(from, to)
				l.condition.Store(&c)
			}
		}
	}
	for range ports {
		row := make([]*packetLink, len(ports))
		for i := range row {
			row[i] = &packetLink{queue: make(chan delayed, maxDelayed)}
			row[i].condition.Store(&Condition{})
		}
		p.links = append(p.links, row)
	}
	for from := range ports {
		p.work.Go(func() { p.receive(from) })
		for to := range ports {
			p.work.Go(func() { p.links[from][to].run(ports[to]) })
		}
	}
	return p
}

// close ends the carrying, and closes the ports.
func (p *packets) close() {
	for _, port := range p.ports {
		_ = port.Close()
	}
	p.work.Wait()
}

// receive takes what a host sends, until its port is closed.
func (p *packets) receive(from int) {
	defer func() {
		for _, l := range p.links[from] {
			close(l.queue)
		}
	}()
	buf := make([]byte, maxPacket+64)
	for {
		n, err := p.ports[from].Read(buf)
		if err != nil {
			return
		}
		if to, ok := receiver(buf[:n]); ok && to < len(p.ports) {
			p.links[from][to].send(buf[:n], p.ports[to])
		}
	}
}

// receiver is the place of the host that a packet is for.
func receiver(packet []byte) (to int, ok bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return 0, false
	}
	return int(packet[19]) - 1, packet[19] > 0
}

// send passes a packet on at once, or later, or loses it.
func (l *packetLink) send(packet []byte, to io.Writer) {
	c := l.condition.Load()
	switch {
	case c.Cut || c.Loss > 0 && rand.Float64() < c.Loss:
	case c.Delay == 0 && l.waiting.Load() == 0:
		_, _ = to.Write(packet)
	default:
		d := delayed{due: time.Now(), packet: append([]byte(nil), packet...)}
		if c.Delay > 0 {
			d.due = d.due.Add(c.Delay + rand.N(c.Delay))
		}
		l.waiting.Add(1)
		select {
		case l.queue <- d:
		default:
			l.waiting.Add(-1)
		}
	}
}

// run passes delayed packets on, in order.
func (l *packetLink) run(to io.Writer) {
	for d := range l.queue {
		time.Sleep(time.Until(d.due))
		if !l.condition.Load().Cut {
			_, _ = to.Write(d.packet)
		}
		l.waiting.Add(-1)
	}
}
