package repl

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/storage"
)

// BenchmarkPropose is three members in one process on the disk, over TCP: writes of
// 300 bytes by 64 proposers, each on the disks of a majority and applied.
func BenchmarkPropose(b *testing.B) {
	var all []*Replica
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		host := l.Addr().String()
		clock := NewClock(time.Now, DefaultMaxDrift)
		s, err := OpenStore(StoreOptions{FS: storage.OSFS(), Dir: b.TempDir(), Open: func(dir string) (*storage.Engine, error) {
			return storage.Open(storage.Options{Dir: dir, CacheBytes: 8 << 20})
		}, Effects: func(e *storage.Engine) (Effects, error) { return writes{e}, nil }})
		if err != nil {
			b.Fatal(err)
		}
		if i == 0 {
			c := &Config{Set: "rs0", ID: [12]byte{7}, Version: 1, Election: time.Second, Members: []MemberConfig{{Host: host, Raft: s.ID(), Priority: 1, Votes: 1}}}
			if err := Found(s, c, clock); err != nil {
				b.Fatal(err)
			}
		}
		n := NewNetwork(NetworkOptions{Host: host})
		r, err := StartReplica(s, n, clock, nil, func(err error) { b.Error(err) })
		if err != nil {
			b.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() { _ = n.Serve(l) })
		b.Cleanup(func() {
			r.Stop()
			n.Close()
			serving.Wait()
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		all = append(all, r)
		if i > 0 {
			joinReplica(b, all[0], r)
		} else {
			wait(b, func() bool { return r.State().Primary })
		}
	}
	payload := encodeWrites([]write{{1, make([]byte, 300)}})
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ev, err := all[0].Evaluate()
			if err == nil {
				_, err = all[0].Propose(ev, payload, nil)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "proposals/s")
}

func wait(b *testing.B, f func() bool) {
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("in vain")
		}
	}
}

func joinReplica(b *testing.B, p, r *Replica) {
	c := p.State().Config.clone()
	c.Version++
	c.Members = append(c.Members, MemberConfig{ID: int32(c.Version), Host: r.net.opts.Host, Raft: r.store.ID(), Votes: 1})
	if _, err := p.Reconfigure(b.Context(), c); err != nil {
		b.Fatal(fmt.Errorf("join: %w", err))
	}
	wait(b, func() bool {
		me := r.State().Config.Member(r.store.ID())
		return me != nil && me.Voter()
	})
	wait(b, func() bool { return !p.State().Config.Member(r.store.ID()).Joining })
}
