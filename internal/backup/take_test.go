package backup

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/wire"
)

// losing is a lock that is lost after some checks.
type losing struct{ left int }

var errTaken = errors.New("somebody else has it")

func (l *losing) Check(context.Context) error {
	if l.left--; l.left < 0 {
		return errTaken
	}
	return nil
}
func (l *losing) Unlock() error { return nil }

// TestPublish holds that there is no backup whose lock was lost before or while its manifest was
// stored.
func TestPublish(t *testing.T) {
	for checks, want := range []int{0, 0, 1} {
		r, err := Open(t.Context(), objectstore.NewDirectory(t.TempDir()), nil, true)
		if err != nil {
			t.Fatal(err)
		}
		err = r.publish(t.Context(), &losing{checks}, &Manifest{Format: repositoryFormat, Taken: time.Unix(1_800_000_000, 0)})
		if errors.Is(err, errTaken) != (want == 0) {
			t.Errorf("after %d checks: %v", checks, err)
		}
		if all, err := r.Backups(t.Context()); err != nil || len(all) != want {
			t.Errorf("after %d checks there are %d backups: %v", checks, len(all), err)
		}
	}
}

// slow is a store to which an object takes half an hour.
type slow struct{ objectstore.Store }

func (s slow) Put(ctx context.Context, name string, temp *os.File) error {
	if err := client.Sleep(ctx, 30*time.Minute); err != nil {
		return err
	}
	return s.Store.Put(ctx, name, temp)
}

// serveCopy answers as a server that closes a backup cursor which is not used for ten minutes, or
// that has lost it, and has files of zeros.
func serveCopy(t *testing.T, nc net.Conn, lost bool) {
	used := time.Now()
	for r := wire.NewReader(nc); ; {
		f, err := r.Next()
		if err != nil {
			return // closed
		}
		m, err := wire.Parse(f)
		if err != nil {
			t.Error(err)
			return
		}
		b := new(bson.Builder)
		name, _ := m.Body.First()
		switch {
		case name == "getMore" && lost:
			b.Double("ok", 0).Int32("code", 43).String("errmsg", "the backup is not open")
		case time.Since(used) > 10*time.Minute:
			t.Errorf("the cursor was not used for %s", time.Since(used))
			return
		case name == "getMore":
			used = time.Now()
			b.Double("ok", 1)
		default:
			b.Double("ok", 1).Binary("data", 0, make([]byte, max(0, bson.ClampToInt64(m.Body.Lookup("length")))))
		}
		if _, err := wire.Write(nc, &wire.Message{OpCode: wire.OpMsg, Compressor: wire.None, ResponseTo: m.RequestID, Body: b.Finish()}); err != nil {
			t.Error(err)
		}
	}
}

// TestSlowStore holds that the server's copy is used while an object is stored, however long that
// takes, and that the backup ends at once with the server's error if the copy is lost meanwhile.
func TestSlowStore(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, err := Open(t.Context(), objectstore.NewDirectory(t.TempDir()), nil, true)
			if err != nil {
				t.Fatal(err)
			}
			r.store = slow{r.store}
			here, there := net.Pipe()
			go serveCopy(t, there, lost)
			nc, err := client.Connect(t.Context(), client.Options{Address: "server", Dial: func(context.Context, string) (net.Conn, error) { return here, nil }})
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			c := &connection{nc, "server"}
			p := &takenPart{t: &taking{r: r, o: TakeOptions{Progress: func(string, int64, int64) {}}, taken: &Taken{}}, c: c, remote: &remoteCopy{c: c, used: time.Now()}}
			begun := time.Now()
			for range 2 {
				_, err = p.file(t.Context(), &remoteFile{path: "1.sst", size: 5 << 20})
				if lost {
					break
				}
				if err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(begun); lost && (err == nil || err.Error() != "the backup is not open" || took > 2*time.Minute) {
				t.Errorf("after %s: %v", took, err)
			}
		})
	}
}

// TestMemberDiesBehindItsFiles holds that a member is not needed any more when its files are
// stored, while those of other parts are not: its copy was ended then, and no error comes of it.
func TestMemberDiesBehindItsFiles(t *testing.T) {
	r, err := Open(t.Context(), objectstore.NewDirectory(t.TempDir()), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	go serveCopy(t, there, false)
	nc, err := client.Connect(t.Context(), client.Options{Address: "server", Dial: func(context.Context, string) (net.Conn, error) { return here, nil }})
	if err != nil {
		t.Fatal(err)
	}
	taking := &taking{r: r, o: TakeOptions{Progress: func(string, int64, int64) {}}, taken: &Taken{Manifest: &Manifest{}}, places: make(chan struct{}, 1)}
	c := &connection{nc, "server"}
	ctx, p, err := taking.add(t.Context(), &Part{Shard: "s0"}, nil, c)
	if err != nil {
		t.Fatal(err)
	}
	p.remote = &remoteCopy{c: c, used: time.Now(), files: []remoteFile{{path: "1.sst", name: "1.sst", size: 5}}}
	if err := taking.files(ctx); err != nil || len(p.part.Files) != 1 {
		t.Fatal(p.part.Files, err)
	}
	there.Close()
	if err := taking.close(ctx); err != nil {
		t.Error(err)
	}
}

// TestRate holds that the parts of a backup together read as many bytes a second as they may, and
// no more.
func TestRate(t *testing.T) {
	const rate, size, parts = 10 << 20, 20 << 20, 2
	synctest.Test(t, func(t *testing.T) {
		r, err := Open(t.Context(), objectstore.NewDirectory(t.TempDir()), nil, true)
		if err != nil {
			t.Fatal(err)
		}
		taking := &taking{r: r, o: TakeOptions{Rate: rate, Progress: func(string, int64, int64) {}}, taken: &Taken{}, pace: time.Now()}
		time.Sleep(time.Minute) // what was not read before is not made up for
		begun := time.Now()
		var work sync.WaitGroup
		for range parts {
			here, there := net.Pipe()
			go serveCopy(t, there, false)
			nc, err := client.Connect(t.Context(), client.Options{Address: "server", Dial: func(context.Context, string) (net.Conn, error) { return here, nil }})
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			c := &connection{nc, "server"}
			p := &takenPart{t: taking, c: c, remote: &remoteCopy{c: c, used: time.Now()}}
			work.Go(func() {
				if _, err := p.file(t.Context(), &remoteFile{path: "1.sst", size: size}); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
		if took, want := time.Since(begun), parts*size/rate*time.Second; took != want || taking.taken.Read != parts*size {
			t.Errorf("%d bytes were read in %s, and %s was wanted", taking.taken.Read, took, want)
		}
	})
}
