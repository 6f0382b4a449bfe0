package replicaset

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// relaidDocuments are there before the index by which they expire: every second one is
// due, the others last.
const relaidDocuments = 100_000

// A filled collection is laid anew by one primary after another: the first one is killed
// in the middle, the second steps down. Meanwhile clients update its documents. Then all
// members have the same, nothing acknowledged is lost, all that is due is gone, and each
// of the later primaries has moved a part.
func TestSetRelayout(t *testing.T) {
	w := start(t, "--setParameter", "ttlMonitorSleepSecs=1")
	c := w.all.Database("app").Collection("filled", options.Collection().SetWriteConcern(writeconcern.Majority()))
	w.primary(-1)
	pad := strings.Repeat("x", 200)
	for first := 0; first < relaidDocuments; first += 1000 {
		docs := make([]any, 1000)
		for i := range docs {
			at := time.Now().Add(-24 * time.Hour)
			if i%2 == 1 {
				at = time.Now().Add(24 * time.Hour)
			}
			docs[i] = bson.D{{Key: "_id", Value: first + i}, {Key: "at", Value: at}, {Key: "n", Value: 0}, {Key: "pad", Value: pad}}
		}
		if _, err := c.InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)}); err != nil {
		t.Fatal(err)
	}
	ws, us := w.write(1), w.update(c, 2)
	first := w.relaying(-1)
	w.members[first].Kill()
	second := w.relaying(first)
	w.members[first].Run()
	until(t, "it is a secondary", func() error { return w.is(first, 2) })
	w.admin(second, bson.D{{Key: "replSetStepDown", Value: 60}})
	third := w.primary(second)
	us.stop() // relayout gives way to clients, on a busy machine for minutes
	ws.stop()
	us.work.Wait()
	ws.work.Wait()
	until(t, "relayout ends", func() error {
		if r, err := w.relayout(third); err != nil || r.Running || r.Collections == 0 || r.DocumentsMoved == 0 {
			return fmt.Errorf("%+v, %v", r, err)
		}
		return nil
	})
	w.check(ws)
	if n, err := c.CountDocuments(t.Context(), bson.D{{Key: "at", Value: bson.D{{Key: "$lt", Value: time.Now()}}}}); err != nil || n != 0 {
		t.Errorf("%d are due and there, %v", n, err)
	}
	var v struct{ Valid bool }
	if err := w.clients[w.primary(-1)].Database("app").RunCommand(t.Context(), bson.D{{Key: "validate", Value: "filled"}, {Key: "full", Value: true}}).Decode(&v); err != nil || !v.Valid {
		t.Errorf("valid %t, %v", v.Valid, err)
	}
	for i := range w.members {
		us.check(t, w.clients[i].Database("app").Collection("filled", options.Collection().SetReadPreference(readpref.Nearest())))
	}
}

// relayoutStatus is metrics.relayout of serverStatus.
type relayoutStatus struct {
	Running                     bool
	DocumentsMoved, Collections int64
}

func (w *set) relayout(i int) (relayoutStatus, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	var s struct {
		Metrics struct{ Relayout relayoutStatus }
	}
	err := w.clients[i].Database("admin").RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Decode(&s)
	return s.Metrics.Relayout, err
}

// relaying is the number of the primary, another one than not, when it has moved
// documents and has not ended.
func (w *set) relaying(not int) (p int) {
	w.t.Helper()
	p = w.primary(not)
	until(w.t, "a relayout under way", func() error {
		r, err := w.relayout(p)
		if err == nil && r.Collections > 0 {
			w.t.Fatalf("relayout has ended: %+v", r)
		}
		if err != nil || !r.Running || r.DocumentsMoved == 0 {
			return fmt.Errorf("%+v, %v", r, err)
		}
		return nil
	})
	return p
}

// updaters add to documents that last; acked are the additions that were acknowledged.
type updaters struct {
	mu    sync.Mutex
	acked map[int]int
	stop  context.CancelFunc
	work  sync.WaitGroup
}

func (w *set) update(c *mongo.Collection, n int) *updaters {
	ctx, cancel := context.WithCancel(w.t.Context())
	us := &updaters{stop: cancel, acked: map[int]int{}}
	for range n {
		us.work.Go(func() {
			for ctx.Err() == nil {
				id := rand.IntN(relaidDocuments/2)*2 + 1
				r, err := c.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				if r.MatchedCount != 1 {
					w.t.Errorf("document %d is not found", id)
				}
				us.mu.Lock()
				us.acked[id]++
				us.mu.Unlock()
			}
		})
	}
	return us
}

// check demands all documents that last, with all additions that were acknowledged.
func (us *updaters) check(t *testing.T, c *mongo.Collection) {
	t.Helper()
	cur, err := c.Find(t.Context(), bson.D{}, options.Find().SetProjection(bson.D{{Key: "n", Value: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for cur.Next(t.Context()) {
		id, n := int(cur.Current.Lookup("_id").AsInt64()), int(cur.Current.Lookup("n").AsInt64())
		if found++; n < us.acked[id] {
			t.Errorf("%d of %d additions to %d are lost", us.acked[id]-n, us.acked[id], id)
		}
	}
	if err := errors.Join(cur.Err(), cur.Close(t.Context())); err != nil || found != relaidDocuments/2 {
		t.Errorf("%d documents, %v", found, err)
	}
}
