package replicaset

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var failovers = flag.Int("failovers", 5, "how many primaries are lost while the driver counts")

// counters count in a set by the official driver, each in a document of its own, as an
// application does that knows nothing of replica sets: by default options, and without
// trying again.
type counters struct {
	t     *testing.T
	docs  *mongo.Collection
	all   []*counter
	over  chan struct{}
	count sync.WaitGroup
}

// counter is one of them. What it was told to have written is done; of what failed
// nobody knows.
type counter struct {
	id           int
	done, failed atomic.Int64
	slowest      atomic.Int64 // of a write, in nanoseconds
}

func (c *counters) start(n int) {
	for i := range n {
		one := &counter{id: i}
		c.all = append(c.all, one)
		c.count.Go(func() {
			for {
				select {
				case <-c.over:
					return
				default:
				}
				begun := time.Now()
				err := one.write(c.t.Context(), c.docs)
				one.slowest.Store(max(one.slowest.Load(), int64(time.Since(begun))))
				if err != nil {
					one.failed.Add(1)
					c.t.Logf("counter %d, after %d writes: %v", i, one.done.Load(), err)
					continue
				}
				one.done.Add(1)
			}
		})
	}
}

// write is one write: an update, a findAndModify or an insert of two documents.
func (one *counter) write(ctx context.Context, docs *mongo.Collection) (err error) {
	id := bson.D{{Key: "_id", Value: one.id}}
	inc := bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}
	switch one.id % 3 {
	case 0:
		_, err = docs.UpdateOne(ctx, id, inc, options.UpdateOne().SetUpsert(true))
	case 1:
		var after struct{ N int64 }
		err = docs.FindOneAndUpdate(ctx, id, inc, options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&after)
		if least := one.done.Load() + 1; err == nil && (after.N < least || after.N > least+one.failed.Load()) {
			err = fmt.Errorf("the answer is %d", after.N)
		}
	case 2:
		_, err = docs.InsertMany(ctx, bson.A{bson.D{{Key: "of", Value: one.id}}, bson.D{{Key: "of", Value: one.id}}})
	}
	return err
}

// writes is how many writes were acknowledged.
func (c *counters) writes() (n int64) {
	for _, one := range c.all {
		n += one.done.Load()
	}
	return n
}

// goOn waits until each counter has had some writes acknowledged.
func (c *counters) goOn() {
	c.t.Helper()
	const enough = 20
	var before []int64
	for _, one := range c.all {
		before = append(before, one.done.Load())
	}
	until(c.t, "all count on", func() error {
		for i, one := range c.all {
			if n := one.done.Load() - before[i]; n < enough {
				return fmt.Errorf("counter %d has written %d times", i, n)
			}
		}
		return nil
	})
}

// end stops the counters and holds that each acknowledged write is there once.
func (c *counters) end(maxFailed int64) {
	c.t.Helper()
	close(c.over)
	c.count.Wait()
	var failed int64
	for _, one := range c.all {
		least := one.done.Load()
		most := least + one.failed.Load()
		failed += one.failed.Load()
		var has int64
		if one.id%3 == 2 {
			n, err := c.docs.CountDocuments(c.t.Context(), bson.D{{Key: "of", Value: one.id}})
			if err != nil {
				c.t.Fatal(err)
			}
			if has = n / 2; most == least && n != 2*least {
				c.t.Errorf("counter %d inserted two documents %d times, and there are %d", one.id, least, n)
			}
		} else {
			var doc struct{ N int64 }
			if err := c.docs.FindOne(c.t.Context(), bson.D{{Key: "_id", Value: one.id}}).Decode(&doc); err != nil {
				c.t.Fatal(err)
			}
			has = doc.N
		}
		if has < least || has > most {
			c.t.Errorf("counter %d wrote %d times, %d more failed, and it has %d", one.id, least, one.failed.Load(), has)
		}
		c.t.Logf("counter %d wrote %d times, the slowest in %v", one.id, least, time.Duration(one.slowest.Load()).Round(time.Millisecond))
	}
	if failed > maxFailed {
		c.t.Errorf("%d writes failed", failed)
	}
}

// healthy waits until each member serves.
func (w *set) healthy() {
	w.t.Helper()
	until(w.t, "all members serve", func() (err error) {
		for i := range w.members {
			if s := w.status(i).MyState; s != 1 && s != 2 {
				err = errors.Join(err, fmt.Errorf("member %d is in state %d", i, s))
			}
		}
		return err
	})
}

// losses are the ways to lose a primary. Each returns when the member is about to serve
// again.
var losses = []struct {
	name string
	lose func(w *set, p int)
}{
	{"kill -9", func(w *set, p int) {
		w.members[p].Kill()
		w.primary(p)
		w.members[p].Run()
	}},
	{"step down", func(w *set, p int) {
		w.admin(p, bson.D{{Key: "replSetStepDown", Value: 10}, {Key: "secondaryCatchUpPeriodSecs", Value: 5}})
		w.primary(p)
		w.admin(p, bson.D{{Key: "replSetFreeze", Value: 0}})
	}},
	{"stop for a while", func(w *set, p int) {
		w.signal(p, syscall.SIGSTOP)
		w.primary(p)
		w.signal(p, syscall.SIGCONT)
	}},
	{"SIGTERM", func(w *set, p int) {
		if code := w.members[p].Stop(); code != config.ExitClean {
			w.t.Errorf("exit code %d", code)
		}
		w.members[p].Run()
	}},
	{"shutdown", func(w *set, p int) {
		// There is no answer: the connection ends.
		_ = w.clients[p].Database("admin").RunCommand(w.t.Context(), bson.D{{Key: "shutdown", Value: 1}}).Err()
		if code := w.members[p].Wait(); code != config.ExitClean {
			w.t.Errorf("exit code %d", code)
		}
		w.members[p].Run()
	}},
}

func (w *set) signal(i int, s syscall.Signal) {
	w.t.Helper()
	if err := syscall.Kill(w.members[i].PID(), s); err != nil {
		w.t.Fatal(err)
	}
}

// TestFailoverOfDriver loses primaries in every way while the official driver counts:
// each write is executed once, and the application hears of nothing.
func TestFailoverOfDriver(t *testing.T) {
	w := start(t)
	c, _ := connect(t, w.members[0], options.Client())
	count := &counters{t: t, docs: c.Database("app").Collection("counts"), over: make(chan struct{})}
	count.start(6)
	for i := range *failovers {
		count.goOn()
		w.healthy()
		loss, before := losses[i%len(losses)], time.Now()
		loss.lose(w, w.primary(-1))
		count.goOn()
		t.Logf("%s: all go on after %v, %d writes so far", loss.name, time.Since(before).Round(time.Millisecond), count.writes())
	}
	w.healthy()
	count.end(0)
}

// A primary that is lost right after the set was made has a successor: the members of
// replSetInitiate vote from the beginning.
func TestFailoverOfNewSet(t *testing.T) {
	var members []*testkit.Server
	var config bson.A
	for i := range 3 {
		s := testkit.Start(t, "--replSet", "rs0")
		members, config = append(members, s), append(config, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: host(s)}})
	}
	err := members[0].Direct().Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs0"}, {Key: "members", Value: config}}}}).Err()
	if err != nil {
		t.Fatal(err)
	}
	members[0].Kill()
	c, _ := connect(t, members[1], options.Client())
	if _, err := c.Database("app").Collection("docs").InsertOne(t.Context(), bson.D{}); err != nil {
		t.Error(err)
	}
}

// BenchmarkFailover measures how long it takes from kill -9 of the primary to the first
// write that the next one acknowledges: -benchtime=50x for fifty times.
func BenchmarkFailover(b *testing.B) {
	w := start(b)
	c, _ := connect(b, w.members[0], options.Client())
	docs := c.Database("app").Collection("docs")
	var took []time.Duration
	for b.Loop() {
		w.healthy()
		if _, err := docs.InsertOne(b.Context(), bson.D{}); err != nil {
			b.Fatal(err)
		}
		p := w.primary(-1)
		begun := time.Now()
		w.members[p].Kill()
		if _, err := docs.InsertOne(b.Context(), bson.D{}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
		w.members[p].Run()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "median-ms")
	b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "worst-ms")
}
