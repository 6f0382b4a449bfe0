package replicaset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// set is three members as processes, and clients of all of them.
type set struct {
	t       testing.TB
	members []*testkit.Server
	clients []*mongo.Client // direct, one for each member
	all     *mongo.Client
}

func host(s *testkit.Server) string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }

// start runs three members and makes them a set.
func start(t testing.TB, args ...string) *set {
	t.Helper()
	w := &set{t: t}
	members := bson.A{}
	var hosts []string
	for i := range 3 {
		s := testkit.Start(t, append([]string{"--replSet", "rs0"}, args...)...)
		w.members = append(w.members, s)
		w.clients = append(w.clients, s.Direct())
		hosts = append(hosts, host(s))
		members = append(members, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: host(s)}})
	}
	w.admin(0, bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs0"}, {Key: "members", Value: members}}}})
	until(t, "three members that vote", func() error {
		for i := range w.members {
			if s := w.status(i); s.MyState != 1 && s.MyState != 2 {
				return fmt.Errorf("member %d is %d", i, s.MyState)
			}
		}
		return allVote(t, w.clients[0])
	})
	w.all = testkit.Connect(t, options.Client().ApplyURI("mongodb://"+strings.Join(hosts, ",")+"/?replicaSet=rs0&retryWrites=false").SetServerSelectionTimeout(patience).
		SetHeartbeatInterval(500*time.Millisecond).SetConnectTimeout(time.Second).SetTimeout(5*time.Second))
	return w
}

// allVote is nil where each member of a set votes; before that a primary that is lost may
// have no successor.
func allVote(t testing.TB, primary *mongo.Client) error {
	t.Helper()
	var c struct{ Config struct{ Members []bson.M } }
	if err := primary.Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetGetConfig", Value: 1}}).Decode(&c); err != nil {
		return err
	}
	for _, m := range c.Config.Members {
		if m["newlyAdded"] == true {
			return fmt.Errorf("%v does not vote yet", m["host"])
		}
	}
	return nil
}

func (w *set) admin(i int, command bson.D) {
	w.t.Helper()
	if err := w.clients[i].Database("admin").RunCommand(w.t.Context(), command).Err(); err != nil {
		w.t.Fatalf("%v: %v", command, err)
	}
}

type status struct{ MyState int }

func (w *set) status(i int) (s status) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	_ = w.clients[i].Database("admin").RunCommand(ctx, bson.D{{Key: "replSetGetStatus", Value: 1}}).Decode(&s)
	return s
}

// primary is the number of the primary, another one than not.
func (w *set) primary(not int) (p int) {
	w.t.Helper()
	until(w.t, "a primary", func() error {
		for i := range w.members {
			if i != not && w.status(i).MyState == 1 {
				p = i
				return nil
			}
		}
		return errors.New("there is none")
	})
	return p
}

// writers insert documents all the time; acked are those that the set has acknowledged.
type writers struct {
	mu    sync.Mutex
	acked []int64
	next  atomic.Int64
	last  atomic.Int64 // when one began that was acknowledged, in nanoseconds
	stop  context.CancelFunc
	work  sync.WaitGroup
}

func (w *set) write(n int) *writers {
	ctx, cancel := context.WithCancel(w.t.Context())
	ws := &writers{stop: cancel}
	c := w.all.Database("app").Collection("docs")
	for range n {
		ws.work.Go(func() {
			for ctx.Err() == nil {
				id, begun := ws.next.Add(1), time.Now().UnixNano()
				if _, err := c.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "tags", Value: bson.A{id % 7, "x"}}}); err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				ws.last.Store(max(ws.last.Load(), begun))
				ws.mu.Lock()
				ws.acked = append(ws.acked, id)
				ws.mu.Unlock()
			}
		})
	}
	return ws
}

// acknowledged waits until writes are acknowledged again, and says how long nobody
// got an answer since a moment.
func (ws *writers) acknowledged(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	until(t, "an acknowledged write", func() error {
		if ws.last.Load() < since.UnixNano() {
			return errors.New("none yet")
		}
		return nil
	})
	return time.Since(since)
}

// check demands every acknowledged document on every member, nothing that nobody has
// written, and that all members have the same.
func (w *set) check(ws *writers) {
	w.t.Helper()
	ws.stop()
	ws.work.Wait()
	w.primary(-1)
	_, err := w.all.Database("app").Collection("last").InsertOne(w.t.Context(), bson.D{})
	if err != nil {
		w.t.Fatal(err)
	}
	var hashes []string
	for i := range w.members {
		until(w.t, "a member has all", func() error {
			h, err := w.hash(i)
			if err == nil && len(hashes) > 0 && h != hashes[0] {
				err = fmt.Errorf("member %d differs from the first", i)
			}
			if err == nil && i == 0 {
				// The first one may lag: what it has must be what another one has.
				var other string
				if other, err = w.hash(1); err == nil && other != h {
					err = errors.New("the first two differ")
				}
			}
			if err == nil {
				hashes = append(hashes, h)
			}
			return err
		})
		has := map[int64]bool{}
		cur, err := w.clients[i].Database("app").Collection("docs", options.Collection().SetReadPreference(readpref.Nearest())).Find(w.t.Context(), bson.D{}, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}))
		if err != nil {
			w.t.Fatal(err)
		}
		for cur.Next(w.t.Context()) {
			has[cur.Current.Lookup("_id").AsInt64()] = true
		}
		if err := cur.Close(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		lost := 0
		for _, id := range ws.acked {
			if !has[id] {
				lost++
			}
		}
		if lost > 0 || len(has) < len(ws.acked) || int64(len(has)) > ws.next.Load() {
			w.t.Errorf("member %d has %d documents; %d of %d acknowledged are lost", i, len(has), lost, len(ws.acked))
		}
	}
	w.t.Logf("%d acknowledged of %d", len(ws.acked), ws.next.Load())
}

func (w *set) hash(i int) (string, error) {
	var h struct{ MD5 string }
	err := w.clients[i].Database("app").RunCommand(w.t.Context(), bson.D{{Key: "dbHash", Value: 1}}, options.RunCmd().SetReadPreference(readpref.Nearest())).Decode(&h)
	return h.MD5, err
}

// A set goes on when its primary is killed, stopped for a while or steps down, and a
// member that was killed, or lost its disk, comes back.
func TestSetSurvives(t *testing.T) {
	w := start(t)
	ws := w.write(4)
	ws.acknowledged(t, time.Now())

	// A killed primary is followed by another one, and comes back.
	p := w.primary(-1)
	w.members[p].Kill()
	t.Logf("killed: %v until a write was acknowledged", ws.acknowledged(t, time.Now()))
	w.members[p].Run()
	until(t, "it is a secondary", func() error { return w.is(p, 2) })

	// A primary that hangs loses its place, and finds that out.
	p = w.primary(-1)
	if err := syscall.Kill(w.members[p].PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	next := w.primary(p)
	t.Logf("stopped: %v until a write was acknowledged", ws.acknowledged(t, time.Now()))
	if err := syscall.Kill(w.members[p].PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, "it is a secondary", func() error { return w.is(p, 2) })

	// One that steps down hands over.
	w.admin(next, bson.D{{Key: "replSetStepDown", Value: 60}})
	w.primary(next)
	t.Logf("stepped down: %v until a write was acknowledged", ws.acknowledged(t, time.Now()))

	// A member that lost its disk gets everything anew.
	p = w.primary(-1)
	lost := (p + 1) % 3
	w.members[lost].Kill()
	empty(t, w.members[lost].Dir)
	w.members[lost].Run()
	until(t, "it is a secondary", func() error { return w.is(lost, 2) })
	ws.acknowledged(t, time.Now())

	// All are killed at once.
	for _, s := range w.members {
		s.Kill()
	}
	for _, s := range w.members {
		s.Run()
	}
	t.Logf("all killed: %v until a write was acknowledged", ws.acknowledged(t, time.Now()))
	w.check(ws)
}

func (w *set) is(i, state int) error {
	if s := w.status(i); s.MyState != state {
		return fmt.Errorf("it is %d", s.MyState)
	}
	return nil
}

func empty(t testing.TB, dir string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.RemoveAll(filepath.Join(dir, n.Name())); err != nil {
			t.Fatal(err)
		}
	}
}
