package replicaset

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// TestArchiveFailover loses primaries while they archive what expires, and clients write: at the
// end each document that was acknowledged is archived, once, and none is live.
func TestArchiveFailover(t *testing.T) {
	dir := t.TempDir()
	w := start(t, "--setParameter", "archivePlaces=file://"+dir, "--setParameter", "ttlMonitorSleepSecs=1")
	c, _ := connect(t, w.members[0], options.Client().SetWriteConcern(writeconcern.Majority()))
	coll := c.Database("app").Collection("log")
	err := c.Database("app").RunCommand(t.Context(), bson.D{{Key: "createIndexes", Value: "log"}, {Key: "indexes", Value: bson.A{bson.D{
		{Key: "key", Value: bson.D{{Key: "at", Value: 1}}}, {Key: "name", Value: "at"}, {Key: "expireAfterSeconds", Value: 1},
		{Key: "storageEngine", Value: bson.M{"mayfly": bson.M{"expiry": bson.M{"archive": bson.M{"to": "file://" + dir + "/log"}}}}}}}}}).Err()
	if err != nil {
		t.Fatal(err)
	}
	var acknowledged []int
	over, writing := make(chan struct{}), sync.WaitGroup{}
	writing.Go(func() {
		for id := 0; ; {
			select {
			case <-over:
				return
			default:
			}
			var docs []any
			for range 100 {
				docs = append(docs, bson.D{{Key: "_id", Value: id}, {Key: "at", Value: time.Now().Add(-time.Duration(id%5) * 24 * time.Hour)}, {Key: "s", Value: fmt.Sprint("document ", id)}})
				id++
			}
			if _, err := coll.InsertMany(context.Background(), docs); err == nil {
				for i := id - 100; i < id; i++ {
					acknowledged = append(acknowledged, i)
				}
			}
		}
	})
	for _, loss := range losses[:3] {
		time.Sleep(1500 * time.Millisecond) // something is archived
		w.healthy()
		loss.lose(w, w.primary(-1))
	}
	close(over)
	writing.Wait()
	w.healthy()
	until(t, "nothing is left", func() error {
		n, err := coll.CountDocuments(t.Context(), bson.D{})
		if err == nil && n > 0 {
			err = fmt.Errorf("%d documents are live", n)
		}
		return err
	})
	cur, err := coll.Aggregate(t.Context(), bson.A{bson.D{{Key: "$archive", Value: bson.D{}}}})
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		ID int    `bson:"_id"`
		S  string `bson:"s"`
	}
	if err := cur.All(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, d := range all {
		if seen[d.ID] {
			t.Errorf("%d is archived twice", d.ID)
		}
		if seen[d.ID] = true; d.S != fmt.Sprint("document ", d.ID) {
			t.Errorf("%d is %q", d.ID, d.S)
		}
	}
	for _, id := range acknowledged {
		if !seen[id] {
			t.Errorf("%d was acknowledged, and is nowhere", id)
		}
	}
	t.Logf("%d documents were acknowledged, %d are archived", len(acknowledged), len(all))
}
