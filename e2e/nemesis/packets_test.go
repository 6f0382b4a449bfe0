package nemesis

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	// maxPacket is the largest packet that a host sends.
	maxPacket = 16 << 10
	// maxDelayed bounds the packets that are on their way from one host to another; more
	// are lost, as a router would lose them.
	maxDelayed = 4096
)

// condition is how the way from one host to another is.
type condition struct {
	cut   bool
	loss  float64       // share of the packets that are lost
	delay time.Duration // of each packet, and up to as much again by chance
}

// worse is how a way is that two things disturb.
func (c condition) worse(o condition) condition {
	return condition{c.cut || o.cut, max(c.loss, o.loss), max(c.delay, o.delay)}
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
	condition
}

// impose makes the way between two hosts worse, until lift is called.
func (w *ways) impose(from, to int, c condition) (lift func()) {
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
func (w *ways) now(from, to int) (c condition) {
	for _, i := range w.imposed {
		if i.from == from && i.to == to {
			c = c.worse(i.condition)
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
	condition atomic.Pointer[condition]
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
			row[i].condition.Store(&condition{})
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
	case c.cut || c.loss > 0 && rand.Float64() < c.loss:
	case c.delay == 0 && l.waiting.Load() == 0:
		_, _ = to.Write(packet)
	default:
		d := delayed{due: time.Now(), packet: append([]byte(nil), packet...)}
		if c.delay > 0 {
			d.due = d.due.Add(c.delay + rand.N(c.delay))
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
		if !l.condition.Load().cut {
			_, _ = to.Write(d.packet)
		}
		l.waiting.Add(-1)
	}
}

// wire is a host for TestPackets: what it sends, and what arrives at it.
type wire struct {
	sends, gets chan []byte
	once        sync.Once
}

func (w *wire) Read(b []byte) (int, error) {
	p, ok := <-w.sends
	if !ok {
		return 0, io.EOF
	}
	return copy(b, p), nil
}

func (w *wire) Write(b []byte) (int, error) {
	w.gets <- append([]byte(nil), b...)
	return len(b), nil
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.sends) })
	return nil
}

// A way is cut, slow or lossy in its direction and for as long as something is imposed on
// it; packets keep their order.
func TestPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hosts []*wire
		var ports []io.ReadWriteCloser
		for range 3 {
			w := &wire{sends: make(chan []byte), gets: make(chan []byte, 1000)}
			hosts, ports = append(hosts, w), append(ports, w)
		}
		p := carry(ports)
		defer p.close()
		// arrive sends packets from a host to another, and says which arrived and after how
		// long the last of them.
		arrive := func(from, to, n int) (got []byte, took time.Duration) {
			begun := time.Now()
			for i := range n {
				packet := make([]byte, 21)
				packet[0], packet[19], packet[20] = 4<<4, byte(to+1), byte(i)
				hosts[from].sends <- packet
			}
			last := begun
			for {
				select {
				case b := <-hosts[to].gets:
					got, last = append(got, b[20]), time.Now()
				case <-time.After(time.Minute):
					return got, last.Sub(begun)
				}
			}
		}
		if got, took := arrive(0, 1, 3); !bytes.Equal(got, []byte{0, 1, 2}) || took != 0 {
			t.Errorf("%v arrive after %v", got, took)
		}
		heal := p.impose(0, 1, condition{cut: true})
		if got, _ := arrive(0, 1, 3); got != nil {
			t.Errorf("%v arrive on a way that is cut", got)
		}
		if got, _ := arrive(1, 0, 3); len(got) != 3 {
			t.Errorf("%v arrive on the way back", got)
		}
		heal()
		heal = p.impose(2, 0, condition{delay: time.Second})
		if got, took := arrive(2, 0, 50); len(got) != 50 || !slices.IsSorted(got) || took < time.Second || took > 2*time.Second {
			t.Errorf("%v arrive after %v", got, took)
		}
		heal()
		heal = p.impose(1, 2, condition{loss: 0.5})
		again := p.impose(1, 2, condition{loss: 0.1})
		again()
		if got, _ := arrive(1, 2, 200); len(got) < 50 || len(got) > 150 {
			t.Errorf("%d of 200 packets arrive where half are lost", len(got))
		}
		heal()
		if got, _ := arrive(1, 2, 200); len(got) != 200 {
			t.Errorf("%d of 200 packets arrive", len(got))
		}
	})
}
