package embed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/embed"
)

func start(t *testing.T, o embed.Options) (*embed.Server, *mongo.Database) {
	t.Helper()
	s, err := embed.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := mongo.Connect(options.Client().ApplyURI(s.URI()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
	return s, c.Database("test")
}

// sessions makes n sessions that expire a day after they were written.
func sessions(t *testing.T, db *mongo.Database, at time.Time, n int) *mongo.Collection {
	t.Helper()
	c := db.Collection("sessions")
	_, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(24 * 3600)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "at", Value: at}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func count(t *testing.T, c *mongo.Collection) int64 {
	t.Helper()
	n, err := c.CountDocuments(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAdvance holds that what expires is there until the clock is set past its time, and gone
// when Advance returns, whatever has the data.
func TestAdvance(t *testing.T) {
	for name, o := range map[string]embed.Options{
		"memory": {}, "directory": {Dir: t.TempDir()},
		"member in memory": {ReplicaSet: "rs0"}, "member on a directory": {ReplicaSet: "rs0", Dir: t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			s, db := start(t, o)
			c := sessions(t, db, s.Now(), 10)
			advance(t, s, 23*time.Hour)
			if n := count(t, c); n != 10 {
				t.Fatalf("%d sessions are left after 23 hours, want all", n)
			}
			begun := time.Now()
			advance(t, s, time.Hour+time.Second)
			if n := count(t, c); n != 0 {
				t.Fatalf("%d sessions are left after a day, want none", n)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("expiry took %v", took)
			}
			// Once more, further than a due check of the monitor would look back.
			sessions(t, db, s.Now(), 3)
			advance(t, s, 365*24*time.Hour)
			if n := count(t, c); n != 0 {
				t.Fatalf("%d sessions are left after a year, want none", n)
			}
		})
	}
}

func advance(t *testing.T, s *embed.Server, d time.Duration) {
	t.Helper()
	if err := s.Advance(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// TestClockIsWhatDocumentsSee holds that expressions, updates and stamps go by the clock that
// was set forward, and that another server's does not move.
func TestClockIsWhatDocumentsSee(t *testing.T) {
	s, db := start(t, embed.Options{})
	other, _ := start(t, embed.Options{})
	advance(t, s, 100*time.Hour)
	c := db.Collection("c")
	if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	_, err := c.UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$currentDate", Value: bson.D{{Key: "updated", Value: true}}}})
	if err != nil {
		t.Fatal(err)
	}
	cursor, err := c.Aggregate(t.Context(), bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "now", Value: "$$NOW"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var docs []struct{ Now, Updated time.Time }
	if err := cursor.All(t.Context(), &docs); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]time.Time{"$$NOW": docs[0].Now, "$currentDate": docs[0].Updated, "Now": s.Now()} {
		if ahead := time.Until(at); ahead < 99*time.Hour || ahead > 100*time.Hour {
			t.Errorf("%s is %v ahead of the computer's clock, want 100 hours", name, ahead)
		}
	}
	if ahead := time.Until(other.Now()); ahead > time.Minute {
		t.Errorf("the clock of another server is %v ahead", ahead)
	}
	for _, d := range []time.Duration{-1, 100 * 365 * 24 * time.Hour} {
		if s.Advance(t.Context(), d) == nil {
			t.Errorf("the clock was set forward by %v", d)
		}
	}
}

// TestAdvanceClockCommand holds that clients can set the clock forward where the server was
// started for tests, and nowhere else.
func TestAdvanceClockCommand(t *testing.T) {
	s, db := start(t, embed.Options{Args: []string{"--setParameter", "enableTestCommands=1"}})
	c := sessions(t, db, s.Now(), 3)
	command := bson.D{{Key: "advanceClock", Value: 1}, {Key: "millis", Value: 25 * 3600 * 1000}}
	var reply struct{ LocalTime time.Time }
	admin := db.Client().Database("admin")
	if err := admin.RunCommand(t.Context(), command).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	if n := count(t, c); n != 0 || time.Until(reply.LocalTime) < 24*time.Hour {
		t.Errorf("%d sessions are left at %v", n, reply.LocalTime)
	}
	refused := func(db *mongo.Database, command bson.D, code int32) {
		t.Helper()
		e, ok := db.RunCommand(t.Context(), command).Err().(mongo.CommandError)
		if !ok || e.Code != code {
			t.Errorf("%v: %v, want code %d", command, e, code)
		}
	}
	refused(admin, bson.D{{Key: "advanceClock", Value: 1}, {Key: "millis", Value: -1}}, 2)
	refused(admin, bson.D{{Key: "advanceClock", Value: 1}}, 40414)
	_, plain := start(t, embed.Options{})
	refused(plain.Client().Database("admin"), command, 59)
}

// TestDirectory holds that data on a directory are there again, and that two servers do not
// share one.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	s, db := start(t, embed.Options{Dir: dir})
	sessions(t, db, s.Now(), 5)
	if _, err := embed.Start(embed.Options{Dir: dir}); err == nil {
		t.Error("two servers have one directory")
	}
	if err := errors.Join(db.Client().Disconnect(t.Context()), s.Stop()); err != nil {
		t.Fatal(err)
	}
	_, db = start(t, embed.Options{Dir: dir, ReplicaSet: "rs0"})
	if n := count(t, db.Collection("sessions")); n != 5 {
		t.Errorf("%d sessions are left, want 5", n)
	}
	if _, err := embed.Start(embed.Options{Args: []string{"--no-such-option"}}); err == nil {
		t.Error("an unknown option was accepted")
	}
}

// TestMember holds that a member in memory has what needs a replica set: a transaction, and a
// change stream that shows it and an expiry.
func TestMember(t *testing.T) {
	s, db := start(t, embed.Options{ReplicaSet: "rs0"})
	c := sessions(t, db, s.Now(), 0)
	stream, err := c.Watch(t.Context(), mongo.Pipeline{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close(context.Background())
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		return c.InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "at", Value: s.Now()}})
	})
	if err != nil {
		t.Fatal(err)
	}
	advance(t, s, 25*time.Hour)
	for _, want := range []string{"insert", "delete"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if !stream.Next(ctx) || stream.Current.Lookup("operationType").StringValue() != want {
			t.Fatalf("%v, %v; want %s", stream.Current, stream.Err(), want)
		}
	}
	if e := db.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "aggregate", Value: 1}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$backupCursor", Value: bson.D{}}}}},
		{Key: "cursor", Value: bson.D{}}}).Err(); e == nil {
		t.Error("data in memory were backed up")
	}
}

func BenchmarkStart(b *testing.B) {
	for name, o := range map[string]embed.Options{"memory": {}, "directory": {Dir: "d"}, "member": {ReplicaSet: "rs0"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if o.Dir != "" {
					o.Dir = b.TempDir()
				}
				s, err := embed.Start(o)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Stop(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
