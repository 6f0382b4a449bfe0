package replicaset

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const (
	// droppedDocuments go as ranges, in units of 65,536, and keptDocuments stay.
	droppedDocuments = 150_000
	keptDocuments    = 1000
	// dropRounds bounds how often it is tried to lose the primary in the middle.
	dropRounds = 8
)

// The primary is lost while documents go as ranges, and the next one goes on: over both,
// the oplog tells of each document that went exactly once, all members have the same,
// and what is not due is there.
func TestRangeDropSurvives(t *testing.T) {
	w := start(t, "--setParameter", "ttlMonitorSleepSecs=1", "--setParameter", "ttlMonitorEnabled=false")
	for i, way := range losses[:2] {
		for round := 0; ; round++ {
			if round == dropRounds {
				t.Fatalf("%s: %d times it came before the first unit, or after the last", way.name, round)
			}
			if w.dropRound(t, fmt.Sprintf("due%d_%d", i, round), way.lose) {
				break
			}
		}
	}
}

// monitor switches the TTL monitors of all members on or off, the primary's last.
func (w *set) monitor(on bool) {
	p := w.primary(-1)
	for i := range w.members {
		if i != p {
			w.admin(i, bson.D{{Key: "setParameter", Value: 1}, {Key: "ttlMonitorEnabled", Value: on}})
		}
	}
	w.admin(p, bson.D{{Key: "setParameter", Value: 1}, {Key: "ttlMonitorEnabled", Value: on}})
}

// dropRound fills a collection, loses the primary while its documents go, and looks what
// became of them; middle says that both primaries have removed some.
func (w *set) dropRound(t *testing.T, name string, lose func(w *set, p int)) (middle bool) {
	t.Helper()
	w.healthy()
	w.monitor(false)
	c := w.all.Database("app").Collection(name, options.Collection().SetWriteConcern(writeconcern.Majority()))
	w.fillDue(t, c)
	p := w.primary(-1)
	w.monitor(true)
	until(t, "the first documents are gone", func() error {
		n, err := w.clients[p].Database("app").Collection(name).EstimatedDocumentCount(t.Context())
		if err == nil && n == droppedDocuments+keptDocuments {
			err = errors.New("not yet")
		}
		return err
	})
	lose(w, p)
	next := w.primary(-1)
	w.monitor(true)
	until(t, "all that is due is gone", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		n, err := c.CountDocuments(ctx, bson.D{})
		if err == nil && n != keptDocuments {
			err = fmt.Errorf("%d are there", n)
		}
		return err
	})
	w.healthy()
	terms := w.told(t, next, name)
	w.kept(t, name)
	t.Logf("%s: told by term %v", name, terms)
	return len(terms) > 1
}

// fillDue makes a collection whose documents are due, in windows of a second each, but
// for a few.
func (w *set) fillDue(t *testing.T, c *mongo.Collection) {
	t.Helper()
	if _, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(-24 * time.Hour)
	insert := func(first, n int, at func(i int) time.Time) {
		docs := make([]any, n)
		for i := range docs {
			docs[i] = bson.D{{Key: "_id", Value: first + i}, {Key: "at", Value: at(first + i)}}
		}
		if _, err := c.InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	const many = 2000
	for first := 0; first < droppedDocuments; first += many {
		insert(first, many, func(i int) time.Time { return begin.Add(time.Duration(i/100) * time.Second) })
	}
	insert(droppedDocuments, keptDocuments, func(int) time.Time { return time.Now().Add(24 * time.Hour) })
}

// told demands that the oplog of a member tells of each document that went once, and of
// no other. It returns how many are told in each term.
func (w *set) told(t *testing.T, i int, name string) map[int64]int {
	t.Helper()
	log := w.clients[i].Database("local").Collection("oplog.rs", options.Collection().SetReadPreference(readpref.Nearest()))
	cur, err := log.Find(t.Context(), bson.D{{Key: "op", Value: "d"}, {Key: "ns", Value: "app." + name}}, options.Find().SetBatchSize(50_000))
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close(t.Context())
	terms, times := map[int64]int{}, make([]int, droppedDocuments+keptDocuments)
	for cur.Next(t.Context()) {
		terms[cur.Current.Lookup("t").AsInt64()]++
		times[cur.Current.Lookup("o", "_id").AsInt64()]++
	}
	if err := cur.Err(); err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for id, n := range times {
		if want := min(1, max(0, droppedDocuments-id)); n != want {
			if wrong++; wrong <= 5 {
				t.Errorf("%s: document %d is told %d times, not %d", name, id, n, want)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%s: of %d documents the oplog tells wrongly", name, wrong)
	}
	return terms
}

// kept demands on each member what was not due and nothing else, that counts are right,
// and that all members have the same.
func (w *set) kept(t *testing.T, name string) {
	t.Helper()
	var first string
	for i := range w.members {
		c := w.clients[i].Database("app").Collection(name, options.Collection().SetReadPreference(readpref.Nearest()))
		until(t, "a member has all", func() error {
			n, err := c.EstimatedDocumentCount(t.Context())
			if err == nil && n != keptDocuments {
				err = fmt.Errorf("member %d counts %d", i, n)
			}
			return err
		})
		for filter, want := range map[int]int64{0: 0, droppedDocuments: keptDocuments} {
			from := bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: filter}, {Key: "$lt", Value: filter + droppedDocuments}}}}
			if n, err := c.CountDocuments(t.Context(), from); err != nil || n != want {
				t.Errorf("member %d has %d from %d on, not %d: %v", i, n, filter, want, err)
			}
		}
		until(t, "the members have the same", func() error {
			h, err := w.hash(i)
			if first == "" {
				first = h
			}
			if err == nil && h != first {
				err = fmt.Errorf("member %d differs", i)
			}
			return err
		})
		var v struct{ Valid bool }
		if err := w.clients[i].Database("app").RunCommand(t.Context(), bson.D{{Key: "validate", Value: name}, {Key: "full", Value: true}}, options.RunCmd().SetReadPreference(readpref.Nearest())).Decode(&v); err != nil || !v.Valid {
			t.Errorf("member %d: valid %t, %v", i, v.Valid, err)
		}
	}
}
