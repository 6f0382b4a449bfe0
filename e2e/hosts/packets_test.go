package hosts

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
		heal := p.Impose(0, 1, Condition{Cut: true})
		if got, _ := arrive(0, 1, 3); got != nil {
			t.Errorf("%v arrive on a way that is cut", got)
		}
		if got, _ := arrive(1, 0, 3); len(got) != 3 {
			t.Errorf("%v arrive on the way back", got)
		}
		heal()
		heal = p.Impose(2, 0, Condition{Delay: time.Second})
		if got, took := arrive(2, 0, 50); len(got) != 50 || !slices.IsSorted(got) || took < time.Second || took > 2*time.Second {
			t.Errorf("%v arrive after %v", got, took)
		}
		heal()
		heal = p.Impose(1, 2, Condition{Loss: 0.5})
		again := p.Impose(1, 2, Condition{Loss: 0.1})
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
