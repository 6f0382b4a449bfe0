package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// fate is what becomes of a document that a client inserts.
type fate int

const (
	kept    fate = iota // it stays
	deleted             // its client deletes it, or finds and deletes it
	expired             // it is due when it is inserted, or soon after
	fates
)

// life is what a client knows of a document: whether its insert and its delete were
// acknowledged. What failed may have happened or not.
type life struct {
	fate                        fate
	inserted, deleteTried, gone bool
}

// lives are the documents of app.l, which come and go, and which others read.
type lives struct {
	cluster *cluster
	mayFail bool // as in counters
	reads   atomic.Int64
	clients sync.WaitGroup
	mu      sync.Mutex
	all     map[string]*life
}

// shardLives shards app.l, whose documents expire by their field at.
func (c *cluster) shardLives(t *testing.T) *lives {
	t.Helper()
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.l"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	index := mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)}
	if _, err := c.routers[0].Client().Database("app").Collection("l").Indexes().CreateOne(t.Context(), index); err != nil {
		t.Fatal(err)
	}
	return &lives{cluster: c, all: map[string]*life{}}
}

// start starts some clients on each router whose documents come and go, and one that reads,
// until ctx ends.
func (l *lives) start(t *testing.T, ctx context.Context, living int) {
	for i, r := range l.cluster.routers {
		coll := r.Client().Database("app").Collection("l")
		for j := range living {
			l.clients.Go(func() { l.live(t, ctx, coll, fmt.Sprintf("%d.%d", i, j)) })
		}
		l.clients.Go(func() { l.read(t, ctx, coll) })
	}
}

// live inserts documents, each with its fate, until ctx ends.
func (l *lives) live(t *testing.T, ctx context.Context, coll *mongo.Collection, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		id, d := fmt.Sprintf("%s.%d", name, n), &life{fate: fate(rand.IntN(int(fates)))}
		doc := bson.D{{Key: "_id", Value: id}, {Key: "n", Value: n}}
		if d.fate == expired {
			doc = append(doc, bson.E{Key: "at", Value: time.Now().Add(time.Duration(rand.IntN(1000)) * time.Millisecond)})
		}
		_, err := coll.InsertOne(t.Context(), doc)
		if err != nil && !l.mayFail || mongo.IsDuplicateKeyError(err) {
			t.Errorf("document %s: %v", id, err)
			return
		}
		l.mu.Lock()
		l.all[id], d.inserted = d, err == nil
		l.mu.Unlock()
		if d.fate != deleted || err != nil {
			continue
		}
		l.mu.Lock()
		d.deleteTried = true
		l.mu.Unlock()
		if n%2 == 0 {
			err = coll.FindOneAndDelete(t.Context(), bson.D{{Key: "n", Value: n}, {Key: "_id", Value: id}}).Err()
		} else {
			var result *mongo.DeleteResult
			if result, err = coll.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: id}}); err == nil && result.DeletedCount != 1 {
				err = mongo.ErrNoDocuments
			}
		}
		if err == mongo.ErrNoDocuments || err != nil && !l.mayFail {
			t.Errorf("document %s is not there to be deleted: %v", id, err)
			return
		}
		l.mu.Lock()
		d.gone = err == nil
		l.mu.Unlock()
	}
}

// known are the ids of the documents that stay, or that are gone, by what clients know.
func (l *lives) known(which func(*life) bool) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := map[string]bool{}
	for id, d := range l.all {
		if which(d) {
			ids[id] = true
		}
	}
	return ids
}

func stays(d *life) bool  { return d.fate == kept && d.inserted }
func isGone(d *life) bool { return d.gone }

// read reads all documents until ctx ends: no document twice, each that stays and was
// acknowledged before, none whose deletion was.
func (l *lives) read(t *testing.T, ctx context.Context, coll *mongo.Collection) {
	for ctx.Err() == nil {
		there, gone := l.known(stays), l.known(isGone)
		var found []struct {
			ID string `bson:"_id"`
		}
		cur, err := coll.Find(t.Context(), bson.D{}, options.Find().SetBatchSize(100))
		if err == nil {
			err = cur.All(t.Context(), &found)
		}
		switch {
		case err != nil && l.mayFail:
			continue
		case err != nil:
			t.Errorf("a reader: %v", err)
			return
		}
		seen := map[string]bool{}
		for _, d := range found {
			if seen[d.ID] || gone[d.ID] {
				t.Errorf("a reader sees document %s, twice: %v, after it was deleted: %v", d.ID, seen[d.ID], gone[d.ID])
				return
			}
			seen[d.ID] = true
			delete(there, d.ID)
		}
		if len(there) > 0 {
			t.Errorf("a reader does not see %d documents that stay: %v", len(there), there)
			return
		}
		l.reads.Add(1)
	}
}

// check waits for the clients, and until what expires has gone; then what stays is there
// once, through every router, and nothing else that was acknowledged.
func (l *lives) check(t *testing.T) (stay, went, left int) {
	t.Helper()
	l.clients.Wait()
	coll := l.cluster.routers[0].Client().Database("app").Collection("l")
	until(t, "what is due expires", func() error {
		n, err := coll.CountDocuments(t.Context(), bson.D{{Key: "at", Value: bson.D{{Key: "$exists", Value: true}}}})
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are left", n)
		}
		return err
	})
	for _, r := range l.cluster.routers {
		cur, err := r.Client().Database("app").Collection("l").Find(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		var found []struct {
			ID string `bson:"_id"`
		}
		if err := cur.All(t.Context(), &found); err != nil {
			t.Fatal(err)
		}
		times := map[string]int{}
		for _, d := range found {
			times[d.ID]++
		}
		stay, went, left = 0, 0, 0
		for id, d := range l.all {
			switch n := times[id]; {
			case d.fate == expired && n != 0, d.gone && n != 0, n > 1, stays(d) && n != 1, d.inserted && d.fate == deleted && !d.deleteTried && n != 1:
				t.Errorf("document %s is there %d times: %+v", id, n, *d)
			}
			switch {
			case stays(d):
				stay++
			case d.gone:
				went++
			case d.fate == expired:
				left++
			}
			delete(times, id)
		}
		if len(times) > 0 {
			t.Errorf("%d documents are there that nobody inserted: %v", len(times), times)
		}
	}
	return stay, went, left
}
