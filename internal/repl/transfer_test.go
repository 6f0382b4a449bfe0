package repl

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/storage"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc/metadata"
)

// transfer is a machine with data, and an empty one that receives them.
type transfer struct {
	t     *testing.T
	a, b  *machine
	frame []byte
}

func newTransfer(t *testing.T) *transfer {
	t.Helper()
	return newTransferTo(t, storage.NewMemFS())
}

// newTransferTo is newTransfer to a file system.
func newTransferTo(t *testing.T, to *storage.MemFS) *transfer {
	t.Helper()
	ms := newMachines(t)
	x := &transfer{t: t, a: ms.start("a:1", storage.NewMemFS(), true), b: ms.start("b:1", to, false)}
	t.Cleanup(func() { x.a.stop(); x.b.stop() })
	primaryOf(t, x.a)
	for i := range 20 {
		if _, err := x.a.write(i, noise(i)); err != nil {
			t.Fatal(err)
		}
	}
	id := x.b.store.ID()
	msg := &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(x.a.store.ID()), To: &id, Term: new(uint64(0)), Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{}}}
	var err error
	if x.frame, err = (&Frame{Set: [12]byte{7}, From: x.a.store.ID(), To: id, Message: msg}).encode(); err != nil {
		t.Fatal(err)
	}
	if err := x.a.store.copyTo(t.Context(), "db/out", x.a.State().Applied.Index); err != nil {
		t.Fatal(err)
	}
	return x
}

// noise is 64 KB that do not compress.
func noise(seed int) string {
	b := make([]byte, 1<<16)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b) // which does not fail
	return string(b)
}

// send sends the copy that was made at first.
func (x *transfer) send() error {
	return x.a.n.sendFiles(x.a.fs, "db/out", "b:1", x.frame, func() error { return nil })
}

// same demands that the receiver has what the sender has written.
func (x *transfer) same() {
	x.t.Helper()
	e, err := x.b.store.opts.Open("db/incoming")
	if err != nil {
		x.t.Fatal(err)
	}
	for i := range 20 {
		v, closer, err := e.Get(storage.FirstIdent, binary.BigEndian.AppendUint64(nil, uint64(i)))
		if err != nil || string(v) != noise(i) {
			x.t.Fatalf("key %d has %d bytes, or others: %v", i, len(v), err)
		}
		if err := closer.Close(); err != nil {
			x.t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		x.t.Fatal(err)
	}
}

// largest is the file of the copy with the most bytes.
func (x *transfer) largest() (name string, size int64) {
	x.t.Helper()
	names, err := x.a.fs.List("db/out")
	if err != nil {
		x.t.Fatal(err)
	}
	for _, n := range names {
		info, err := x.a.fs.Stat("db/out/" + n)
		if err != nil {
			x.t.Fatal(err)
		}
		if info.Size() > size {
			name, size = n, info.Size()
		}
	}
	return name, size
}

// has writes a file of an earlier attempt.
func (x *transfer) has(name string, content []byte) {
	x.t.Helper()
	if err := x.b.fs.MkdirAll("db/incoming", 0o755); err != nil {
		x.t.Fatal(err)
	}
	f, err := x.b.fs.Create("db/incoming/"+name, "")
	if err != nil {
		x.t.Fatal(err)
	}
	if _, err := f.Write(content); err != nil {
		x.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		x.t.Fatal(err)
	}
}

// lastWrites are Effects that an operation of this member's own uses until they are closed.
type lastWrites struct{ writes }

func (w lastWrites) Close() error {
	u := w.e.Begin()
	return errors.Join(u.Set(storage.FirstOwnIdent, []byte("own"), []byte("last")), u.Commit(context.Background(), storage.Journaled))
}

// What operations have written for this member alone until the moment at which a snapshot keeps
// them out is there when it has replaced the data.
func TestSnapshotKeepsLastWrites(t *testing.T) {
	fs := storage.NewMemFS()
	open := func(dir string) *Store {
		s, err := OpenStore(StoreOptions{FS: fs, Dir: dir, Open: func(dir string) (*storage.Engine, error) {
			return storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
		}, Effects: func(e *storage.Engine) (Effects, error) { return lastWrites{writes{e}}, nil }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	a, b := open("a"), open("b")
	c := &Config{Set: "rs0", ID: [12]byte{7}, Version: 1, Election: 500 * time.Millisecond, Members: []MemberConfig{{Host: "a:1", Raft: a.ID(), Priority: 1, Votes: 1}}}
	if err := Found(a, c, NewClock(time.Now, DefaultMaxDrift)); err != nil {
		t.Fatal(err)
	}
	if err := a.copyTo(t.Context(), "b/"+incomingDir, 0); err != nil {
		t.Fatal(err)
	}
	if err := b.Install(a.Base(), a.HardState()); err != nil {
		t.Fatal(err)
	}
	v, closer, err := b.engine.Get(storage.FirstOwnIdent, []byte("own"))
	if err != nil || string(v) != "last" || b.engine.Applied() != a.Base().Index {
		t.Fatalf("its own is %q: %v; applied is %d", v, err, b.engine.Applied())
	}
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
}

// What is there of another copy, shorter, longer or as long, is not taken for this one's.
func TestSnapshotOfAnotherCopy(t *testing.T) {
	for name, more := range map[string]int64{"shorter": -1000, "as long": 0, "longer": 10} {
		t.Run(name, func(t *testing.T) {
			to := storage.NewMemFS()
			if more == 0 {
				to = storage.NewEncryptedMemFS()
			}
			x := newTransferTo(t, to)
			file, size := x.largest()
			x.has(file, make([]byte, size+more))
			if err := x.send(); err != nil {
				t.Fatal(err)
			}
			x.same()
			if x.b.n.Receiving(0) != nil {
				t.Error("it is being received still")
			}
		})
	}
}

// A copy that was cut off goes on where it was, and the member lives on meanwhile, also
// where its disk was full.
func TestSnapshotGoesOn(t *testing.T) {
	for name, failure := range map[string]error{"cut off": errors.New("cut off"), "full disk": syscall.ENOSPC, "cut off, encrypted": errors.New("cut off"), "full disk, encrypted": syscall.ENOSPC} {
		t.Run(name, func(t *testing.T) {
			to := storage.NewMemFS()
			if strings.HasSuffix(name, "encrypted") {
				to = storage.NewEncryptedMemFS()
			}
			x := newTransferTo(t, to)
			file, size := x.largest()
			const before = 3 // pieces that are there when it fails
			if size < before*chunkBytes {
				t.Fatalf("the largest file has %d bytes", size)
			}
			writes := 0
			x.b.fs.SetFault(func(op, path string) error {
				if op != "write" || !strings.HasSuffix(path, "incoming/"+file) {
					return nil
				}
				if writes++; writes > before {
					return failure
				}
				return nil
			})
			err := x.send()
			if err == nil || !strings.Contains(err.Error(), failure.Error()) || errors.Is(failure, syscall.ENOSPC) != strings.Contains(err.Error(), "the disk filled up") {
				t.Fatalf("the first attempt: %v", err)
			}
			var kept atomic.Int64
			x.b.fs.SetFault(func(op, path string) error {
				if p := x.b.n.Receiving(0); op == "write" && p != nil && strings.HasSuffix(path, "incoming/"+file) {
					kept.Store(p.Kept.Load())
				}
				return nil
			})
			if err := x.send(); err != nil {
				t.Fatal(err)
			}
			if kept.Load() < before*chunkBytes {
				t.Errorf("%d bytes were kept", kept.Load())
			}
			x.same()
		})
	}
}

// Where there is no room nothing is written, and what is there of an earlier attempt goes
// if that helps.
func TestSnapshotWithoutRoom(t *testing.T) {
	x := newTransfer(t)
	total := int64(0)
	names, _ := x.a.fs.List("db/out")
	for _, n := range names {
		info, err := x.a.fs.Stat("db/out/" + n)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	const floor = 4 << 20 // four memtables of a megabyte
	x.has("stale", make([]byte, 1000))
	x.b.fs.SetQuota(floor + total - 2000)
	if err := x.send(); err == nil || !strings.Contains(err.Error(), "not enough disk space") {
		t.Fatalf("without room: %v", err)
	}
	if list, err := x.b.fs.List("db/incoming"); err != nil || len(list) != 0 {
		t.Errorf("%v are there: %v", list, err)
	}
	x.b.fs.SetQuota(-1)
	if err := x.send(); err != nil {
		t.Errorf("with room: %v", err)
	}
	x.same()
}

// What was damaged on its way is not kept.
func TestSnapshotDamaged(t *testing.T) {
	x := newTransfer(t)
	conn, err := x.a.n.dial("b:1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s, err := conn.NewStream(metadata.AppendToOutgoingContext(t.Context(), hostHeader, "a:1"), &peerService.Streams[1], "/mayfly.Replication/Snapshot")
	if err != nil {
		t.Fatal(err)
	}
	number := func(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }
	var answer []byte
	for _, m := range []struct {
		b        []byte
		answered bool
	}{
		{append(number([]byte{sendHeader}, 100), x.frame...), true},
		{append(number([]byte{sendFile}, 5), "file"...), true},
		{number([]byte{sendFrom}, 0), false},
		{[]byte("\x04hello"), false},
		{append([]byte{sendSum}, make([]byte, 32)...), true},
	} {
		if err = s.SendMsg(m.b); err == nil && m.answered {
			err = s.RecvMsg(&answer)
		}
		if err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "arrived damaged") {
		t.Errorf("what arrived damaged: %v", err)
	}
	if _, err := x.b.fs.Stat("db/incoming/file"); err == nil {
		t.Error("it is still there")
	}
}

// The rate bounds what all transfers send together, and can be changed at any time.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		begun := time.Now()
		send := func(n int) {
			done := make(chan struct{})
			for range 2 {
				go func() {
					for range n {
						p.wait(t.Context(), 1000)
					}
					done <- struct{}{}
				}()
			}
			<-done
			<-done
		}
		send(50)
		if took := time.Since(begun); took != 0 {
			t.Errorf("without a bound it took %s", took)
		}
		p.rate.Store(10_000)
		send(50)
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("100,000 bytes at 10,000 a second took %s", took)
		}
	})
}
