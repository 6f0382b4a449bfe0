package driver

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

type session struct {
	ID   string    `bson:"_id"`
	User string    `bson:"user"`
	Seen int       `bson:"seen"`
	At   time.Time `bson:"at"`
}

func eq(name string, v any) bson.D { return bson.D{{Key: name, Value: v}} }

// TestSessionsExpire keeps sessions, uses one, and sees another go; the
// counters of the monitor move along.
func TestSessionsExpire(t *testing.T) {
	s := testkit.Start(t, "--setParameter", "ttlMonitorSleepSecs=1")
	client := s.Client()
	c := client.Database("app").Collection("sessions")
	_, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: eq("at", 1), Options: options.Index().SetExpireAfterSeconds(0)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	docs := []any{session{"a", "ann", 0, now}, session{"b", "bob", 0, now.Add(time.Hour)}, session{"c", "cat", 0, now.Add(time.Minute)}}
	if _, err := c.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	var kept session
	after := options.FindOneAndUpdate().SetReturnDocument(options.After)
	touch := bson.D{{Key: "$set", Value: eq("at", now.Add(time.Hour))}, {Key: "$inc", Value: eq("seen", 1)}}
	if err := c.FindOneAndUpdate(t.Context(), eq("_id", "c"), touch, after).Decode(&kept); err != nil || kept.Seen != 1 {
		t.Fatal(kept, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := int64(3); n > 2; {
		if n, err = c.CountDocuments(ctx, bson.D{}); err != nil {
			t.Fatal(err)
		}
	}
	var left []session
	cur, err := c.Find(ctx, bson.D{}, options.Find().SetSort(eq("_id", 1)))
	if err == nil {
		err = cur.All(ctx, &left)
	}
	if err != nil || len(left) != 2 || left[0].ID != "b" || left[1].ID != "c" {
		t.Errorf("%v, %v", left, err)
	}
	var status struct {
		Metrics struct {
			TTL struct {
				SubPasses        int64 `bson:"subPasses"`
				DeletedDocuments int64 `bson:"deletedDocuments"`
			} `bson:"ttl"`
		} `bson:"metrics"`
		BatchedDeletes struct{ Batches, Docs int64 } `bson:"batchedDeletes"`
	}
	for status.Metrics.TTL.SubPasses == 0 { // it is counted at its end
		if err := client.Database("admin").RunCommand(ctx, eq("serverStatus", 1)).Decode(&status); err != nil {
			t.Fatal(err)
		}
	}
	if status.Metrics.TTL.DeletedDocuments != 1 || status.BatchedDeletes.Docs != 1 || status.BatchedDeletes.Batches != 1 {
		t.Errorf("%+v", status)
	}
}

// TestApplication is what a driver's own API asks of a server, once with each
// compressor.
func TestApplication(t *testing.T) {
	s := testkit.Start(t)
	for _, compressor := range []string{"none", "snappy", "zlib", "zstd"} {
		t.Run(compressor, func(t *testing.T) {
			o := options.Client().ApplyURI(s.URI()).SetAppName("e2e")
			if compressor != "none" {
				o.SetCompressors([]string{compressor})
			}
			client, err := mongo.Connect(o)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Disconnect(context.WithoutCancel(t.Context()))
			db := client.Database("app_" + compressor)
			writes(t, client, db)
			reads(t, db.Collection("c"))
			refusals(t, db)
			if err := db.Drop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func writes(t *testing.T, client *mongo.Client, db *mongo.Database) {
	t.Helper()
	docs := make([]any, 2000)
	for i := range docs {
		docs[i] = bson.D{{Key: "_id", Value: i}, {Key: "n", Value: i % 10}, {Key: "text", Value: "some text that can be compressed"}}
	}
	if _, err := db.Collection("c").InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	res, err := db.Collection("c").BulkWrite(t.Context(), []mongo.WriteModel{
		mongo.NewUpdateManyModel().SetFilter(eq("n", 1)).SetUpdate(eq("$set", eq("m", true))),
		mongo.NewReplaceOneModel().SetFilter(eq("_id", 5000)).SetReplacement(eq("n", 99)).SetUpsert(true),
		mongo.NewDeleteManyModel().SetFilter(eq("n", 2)),
	})
	if err != nil || res.ModifiedCount != 200 || res.UpsertedCount != 1 || res.DeletedCount != 200 {
		t.Errorf("%+v, %v", res, err)
	}
	all, err := client.BulkWrite(t.Context(), []mongo.ClientBulkWrite{
		{Database: db.Name(), Collection: "c", Model: mongo.NewClientInsertOneModel().SetDocument(eq("_id", 6000))},
		{Database: db.Name(), Collection: "d", Model: mongo.NewClientInsertOneModel().SetDocument(eq("_id", 1))},
	})
	if err != nil || all.InsertedCount != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	err = client.UseSession(t.Context(), func(ctx context.Context) error {
		_, err := db.Collection("d").UpdateOne(ctx, eq("_id", 1), eq("$inc", eq("n", 1)))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func reads(t *testing.T, c *mongo.Collection) {
	t.Helper()
	cur, err := c.Find(t.Context(), bson.D{}, options.Find().SetBatchSize(100).SetSort(eq("_id", -1)))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for cur.Next(t.Context()) {
		n++
	}
	if cur.Err() != nil || n != 1802 {
		t.Errorf("%d documents, %v", n, cur.Err())
	}
	var values []int32
	if err := c.Distinct(t.Context(), "n", bson.D{}).Decode(&values); err != nil || !slices.Equal(values, []int32{0, 1, 3, 4, 5, 6, 7, 8, 9, 99}) {
		t.Errorf("%v, %v", values, err)
	}
	cur, err = c.Aggregate(t.Context(), mongo.Pipeline{
		eq("$match", eq("n", eq("$lt", 2))), eq("$group", bson.D{{Key: "_id", Value: "$n"}, {Key: "k", Value: eq("$sum", 1)}}), eq("$sort", eq("_id", 1)),
	})
	var groups []struct{ ID, K int32 }
	if err == nil {
		err = cur.All(t.Context(), &groups)
	}
	if err != nil || len(groups) != 2 || groups[0].K != 200 {
		t.Errorf("%v, %v", groups, err)
	}
	if n, err := c.EstimatedDocumentCount(t.Context()); err != nil || n != 1802 {
		t.Errorf("%d, %v", n, err)
	}
}

// refusals are errors as a driver's predicates see them.
func refusals(t *testing.T, db *mongo.Database) {
	t.Helper()
	if _, err := db.Collection("c").InsertOne(t.Context(), eq("_id", 1)); !mongo.IsDuplicateKeyError(err) {
		t.Error(err)
	}
	var command mongo.CommandError
	if err := db.RunCommand(t.Context(), eq("nonsense", 1)).Err(); !errors.As(err, &command) || command.Code != 59 || command.Name != "CommandNotFound" {
		t.Error(err)
	}
	_, err := db.Collection("c").Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(1)})
	if !errors.As(err, &command) || command.Code != 67 {
		t.Errorf("a compound TTL index: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if err := db.Collection("c").FindOne(ctx, bson.D{}).Err(); !mongo.IsTimeout(err) {
		t.Error(err)
	}
}
