package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// countedDocuments is how many documents of app.c clients count in.
const countedDocuments = 200

// tally is what clients were told about the increments of a document: how many were
// acknowledged, and how many failed, which may have happened or not.
type tally struct{ acknowledged, unknown atomic.Int64 }

// counters are the documents of app.c, in which clients of all routers count, and which
// others read.
type counters struct {
	cluster *cluster
	// mayFail: parts of the cluster are killed, so a client may get an error.
	mayFail bool
	tallies [countedDocuments]tally
	reads   atomic.Int64
	clients sync.WaitGroup
}

// insertCounters inserts the documents.
func (c *cluster) insertCounters(t *testing.T) *counters {
	t.Helper()
	var docs []any
	for i := range countedDocuments {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "n", Value: 0}})
	}
	if _, err := c.routers[0].Client().Database("app").Collection("c").InsertMany(t.Context(), docs, unordered); err != nil {
		t.Fatal(err)
	}
	return &counters{cluster: c}
}

// start starts some clients on each router that count, and one that reads, until ctx ends.
func (n *counters) start(t *testing.T, ctx context.Context, counting int) {
	for _, r := range n.cluster.routers {
		coll := r.Client().Database("app").Collection("c")
		for range counting {
			n.clients.Go(func() { n.count(t, ctx, coll) })
		}
		n.clients.Go(func() { n.read(t, ctx, coll) })
	}
}

// count increments documents until ctx ends.
func (n *counters) count(t *testing.T, ctx context.Context, coll *mongo.Collection) {
	for ctx.Err() == nil {
		i := rand.IntN(countedDocuments)
		result, err := coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: i}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
		switch {
		case err != nil && n.mayFail:
			n.tallies[i].unknown.Add(1)
		case err != nil || result.MatchedCount != 1:
			t.Errorf("document %d: %+v %v", i, result, err)
			return
		default:
			n.tallies[i].acknowledged.Add(1)
		}
	}
}

// read reads all documents until ctx ends: each reader sees every document once.
func (n *counters) read(t *testing.T, ctx context.Context, coll *mongo.Collection) {
	for ctx.Err() == nil {
		var found []bson.M
		cur, err := coll.Find(t.Context(), bson.D{}, options.Find().SetBatchSize(50))
		if err == nil {
			err = cur.All(t.Context(), &found)
		}
		if err != nil && n.mayFail {
			continue
		}
		seen := map[string]bool{}
		for _, d := range found {
			seen[fmt.Sprint(d["_id"])] = true
		}
		if err != nil || len(found) != countedDocuments || len(seen) != countedDocuments {
			t.Errorf("a reader sees %d documents, %d of them different: %v", len(found), len(seen), err)
			return
		}
		n.reads.Add(1)
	}
}

// check waits for the clients, and checks through every router that each increment that was
// acknowledged is there once, and one that failed at most once.
func (n *counters) check(t *testing.T) (acknowledged, unknown int64) {
	t.Helper()
	n.clients.Wait()
	for i := range n.tallies {
		acknowledged, unknown = acknowledged+n.tallies[i].acknowledged.Load(), unknown+n.tallies[i].unknown.Load()
	}
	for _, r := range n.cluster.routers {
		cur, err := r.Client().Database("app").Collection("c").Find(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		var found []struct {
			ID int `bson:"_id"`
			N  int64
		}
		if err := cur.All(t.Context(), &found); err != nil || len(found) != countedDocuments {
			t.Fatalf("%d documents, %v", len(found), err)
		}
		for _, d := range found {
			if least, more := n.tallies[d.ID].acknowledged.Load(), n.tallies[d.ID].unknown.Load(); d.N < least || d.N > least+more {
				t.Errorf("document %d counts %d; %d were acknowledged, %d unknown", d.ID, d.N, least, more)
			}
		}
	}
	return acknowledged, unknown
}
