package replicaset

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The official driver tails local.oplog.rs as Meteor does: what is written while it
// waits comes once and in order, also over a break behind which it goes on from the time
// that it has seen last.
func TestTailOplog(t *testing.T) {
	s := testkit.Start(t, "--replSet", "rs0", "--initiate")
	client := s.Direct()
	docs, oplog := client.Database("app").Collection("docs"), client.Database("local").Collection("oplog.rs")
	until(t, "a write", func() error {
		_, err := docs.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 0}})
		return err
	})
	type document struct {
		TS bson.Timestamp `bson:"ts"`
		Op string
		O  struct {
			ID int `bson:"_id"`
		}
	}
	var last document
	if err := oplog.FindOne(t.Context(), bson.D{{Key: "ns", Value: "app.docs"}}, options.FindOne().SetSort(bson.D{{Key: "$natural", Value: -1}})).Decode(&last); err != nil || last.Op != "i" {
		t.Fatalf("%+v: %v", last, err)
	}
	next := 1
	for range 3 {
		cur, err := oplog.Find(t.Context(), bson.D{{Key: "ns", Value: "app.docs"}, {Key: "ts", Value: bson.D{{Key: "$gt", Value: last.TS}}}}, options.Find().SetCursorType(options.TailableAwait))
		if err != nil {
			t.Fatal(err)
		}
		written := make(chan error, 1)
		go func(from int) {
			var err error
			for i := range 100 {
				if i%10 == 0 && err == nil {
					var batch []any
					for j := range 10 {
						batch = append(batch, bson.D{{Key: "_id", Value: from + i + j}})
					}
					_, err = docs.InsertMany(t.Context(), batch)
				}
			}
			written <- err
		}(next)
		for to := next + 100; next < to; next++ {
			before := last.TS
			if !cur.Next(t.Context()) {
				t.Fatal(cur.Err())
			}
			if err := cur.Decode(&last); err != nil || last.O.ID != next || !last.TS.After(before) {
				t.Fatalf("%+v in the place of %d: %v", last, next, err)
			}
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		if err := cur.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := oplog.CountDocuments(t.Context(), bson.D{{Key: "ns", Value: "app.docs"}, {Key: "op", Value: "i"}}); err != nil || n != 301 {
		t.Errorf("%d inserts: %v", n, err)
	}
	if _, err := oplog.InsertOne(t.Context(), bson.D{}); code(err) != 73 {
		t.Errorf("an insert: %v", err)
	}
	s.Kill()
}
