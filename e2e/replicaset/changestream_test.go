package replicaset

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

var watches = flag.Int("watches", 3, "how many primaries are lost while a stream is watched")

// watchedEvent is an event as a test reads it.
type watchedEvent struct {
	OperationType string
	ClusterTime   bson.Timestamp
	DocumentKey   struct {
		ID string `bson:"_id"`
	}
	FullDocument, FullDocumentBeforeChange bson.M
	Expired                                struct{ Rule string }
}

// replica is what a watcher knows of a collection: each document, made of the events alone.
type replica struct {
	docs     map[string]bson.M
	inserted map[string]int
	last     bson.Timestamp
	expired  int
	events   int
}

// apply applies an event, and says what cannot be: an insert of what is there, a change of
// what is another document than the event says.
func (r *replica) apply(e *watchedEvent) error {
	id, was := e.DocumentKey.ID, r.docs[e.DocumentKey.ID]
	if e.ClusterTime.Compare(r.last) <= 0 {
		return fmt.Errorf("%v is told behind %v", e.ClusterTime, r.last)
	}
	r.last = e.ClusterTime
	r.events++
	if e.OperationType == "insert" {
		if was != nil {
			return fmt.Errorf("%s is inserted, and is there", id)
		}
		r.docs[id] = e.FullDocument
		r.inserted[id]++
		return nil
	}
	if was == nil || !reflect.DeepEqual(was, e.FullDocumentBeforeChange) {
		return fmt.Errorf("%s of %s: it was %v, and the event says %v", e.OperationType, id, was, e.FullDocumentBeforeChange)
	}
	if e.OperationType == "delete" {
		delete(r.docs, id)
		if e.Expired.Rule != "" {
			r.expired++
		}
		return nil
	}
	r.docs[id] = e.FullDocument
	return nil
}

// watchedWriter inserts documents, changes and deletes some, and leaves others to the TTL
// monitor. acknowledged are the inserts that it was told of.
type watchedWriter struct {
	id           int
	acknowledged []string
}

func (ww *watchedWriter) write(ctx context.Context, c *mongo.Collection, n int) {
	var ids []string
	var docs bson.A
	for i := range 1 + rand.IntN(20) {
		id := fmt.Sprintf("%d/%d/%d", ww.id, n, i)
		ids = append(ids, id)
		d := bson.D{{Key: "_id", Value: id}, {Key: "n", Value: int32(0)}}
		if rand.IntN(2) == 0 {
			d = append(d, bson.E{Key: "at", Value: time.Now().Add(time.Duration(rand.IntN(3000)) * time.Millisecond)})
		}
		docs = append(docs, d)
	}
	if _, err := c.InsertMany(ctx, docs); err != nil {
		return // whether they are there, nobody knows
	}
	ww.acknowledged = append(ww.acknowledged, ids...)
	one := bson.D{{Key: "_id", Value: ids[rand.IntN(len(ids))]}}
	switch rand.IntN(3) { // what becomes of these the stream tells, and the collection at the end
	case 0:
		_, _ = c.UpdateOne(ctx, one, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int32(1)}}}, {Key: "$push", Value: bson.D{{Key: "a", Value: int32(n)}}}})
	case 1:
		_, _ = c.ReplaceOne(ctx, one, bson.D{{Key: "n", Value: int32(n)}})
	case 2:
		_, _ = c.DeleteOne(ctx, one)
	}
}

// watchOnce opens a stream behind a token, reads a random number of events, and returns
// the token of the last one. until, if not nil, says that it is enough.
func watchOnce(ctx context.Context, t *testing.T, c *mongo.Collection, token bson.Raw, start *bson.Timestamp, r *replica, enough func() bool) (bson.Raw, error) {
	o := options.ChangeStream().SetFullDocument(options.WhenAvailable).SetFullDocumentBeforeChange(options.WhenAvailable).SetMaxAwaitTime(200 * time.Millisecond)
	if token != nil {
		o.SetResumeAfter(token)
	} else {
		o.SetStartAtOperationTime(start)
	}
	s, err := c.Watch(ctx, mongo.Pipeline{}, o)
	if err != nil {
		return token, err
	}
	defer s.Close(context.WithoutCancel(ctx))
	for range 1 + rand.IntN(300) {
		if !s.TryNext(ctx) {
			if err := s.Err(); err != nil {
				return token, err
			}
			token = s.ResumeToken() // also of an empty batch
			if enough() {
				return token, nil
			}
			continue
		}
		var e watchedEvent
		if err := s.Decode(&e); err != nil {
			t.Fatal(err)
		}
		if err := r.apply(&e); err != nil {
			t.Fatalf("after %d events: %v: %s", r.events, err, s.Current)
		}
		token = append(bson.Raw(nil), s.ResumeToken()...)
	}
	return token, nil
}

// A watcher that ends at random and is resumed by its token, at any member, sees each
// change once and in order while writers, the TTL monitor and failovers go on: what it
// makes of the events is the collection. The images before and after each change are right.
func TestWatcherSurvives(t *testing.T) {
	w := start(t, "--setParameter", "ttlMonitorSleepSecs=1")
	for _, windows := range []bool{true, false} {
		watchThrough(t, w, fmt.Sprintf("watched%t", windows), windows)
	}
}

func watchThrough(t *testing.T, w *set, name string, windows bool) {
	db := w.all.Database("app")
	if err := db.CreateCollection(t.Context(), name, options.CreateCollection().SetChangeStreamPreAndPostImages(bson.D{{Key: "enabled", Value: true}})); err != nil {
		t.Fatal(err)
	}
	c := db.Collection(name)
	if !windows { // a collection that has documents keeps its layout
		if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "first"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(1)}); err != nil {
		t.Fatal(err)
	}
	var hello struct{ OperationTime bson.Timestamp }
	if err := db.RunCommand(t.Context(), bson.D{{Key: "ping", Value: 1}}).Decode(&hello); err != nil {
		t.Fatal(err)
	}
	begin := hello.OperationTime
	begin.I++
	over, done := make(chan struct{}), make(chan struct{})
	var writing, watching sync.WaitGroup
	writers := make([]*watchedWriter, 3)
	for i := range writers {
		writers[i] = &watchedWriter{id: i}
		writing.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
					writers[i].write(t.Context(), c, n)
				}
			}
		})
	}
	r := &replica{docs: map[string]bson.M{}, inserted: map[string]int{}}
	if !windows {
		r.docs["first"] = bson.M{"_id": "first"}
	}
	resumed, failed := 0, 0
	watching.Go(func() {
		defer close(done)
		var token bson.Raw
		for {
			from := db.Collection(name, options.Collection().SetReadPreference([]*readpref.ReadPref{readpref.Primary(), readpref.Secondary(), readpref.Nearest()}[rand.IntN(3)]))
			var err error
			quiet := 0
			token, err = watchOnce(t.Context(), t, from, token, &begin, r, func() bool {
				select {
				case <-over:
					quiet++
				default:
				}
				return quiet > 5
			})
			if err != nil {
				failed++ // between two primaries: the next attempt goes on where this one ended
			}
			resumed++
			if quiet > 5 || t.Failed() {
				return
			}
		}
	})
	for i := range *watches {
		select {
		case <-done:
			t.Fatal("the watcher has ended")
		case <-time.After(3 * time.Second): // let it be watched for a while
		}
		w.healthy()
		losses[i%len(losses)].lose(w, w.primary(-1))
	}
	w.healthy()
	w.primary(-1)
	close(over)
	writing.Wait()
	<-done
	watching.Wait()
	compare(t, c, r, writers)
	t.Logf("%s: %d events, %d of them expired, the stream was resumed %d times, %d attempts failed", name, r.events, r.expired, resumed, failed)
}

// compare holds that the events made what is in the collection, but for what expires now,
// and that each acknowledged insert was told once.
func compare(t *testing.T, c *mongo.Collection, r *replica, writers []*watchedWriter) {
	t.Helper()
	cur, err := c.Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.M
	if err := cur.All(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	there := map[string]bson.M{}
	for _, d := range all {
		there[d["_id"].(string)] = d
		if !reflect.DeepEqual(r.docs[d["_id"].(string)], d) {
			t.Errorf("%v: the events make it %v", d, r.docs[d["_id"].(string)])
		}
	}
	for id, d := range r.docs {
		if _, expires := d["at"]; there[id] == nil && !expires {
			t.Errorf("%v is gone, and no event says so", d)
		}
	}
	for _, ww := range writers {
		for _, id := range ww.acknowledged {
			if r.inserted[id] != 1 {
				t.Errorf("%s was inserted, and %d events say so", id, r.inserted[id])
			}
		}
	}
	if r.events == 0 || r.expired == 0 {
		t.Error(errors.New("nothing has happened"))
	}
}
