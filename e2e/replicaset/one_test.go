package replicaset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// patience is how long something that must happen may take, goodbye how long a client
// tries to end its sessions.
const (
	patience = time.Minute
	goodbye  = 50 * time.Millisecond
)

// until waits for something to become true.
func until(t testing.TB, what string, is func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	t.Fatalf("in vain: %s: %v", what, err)
}

func code(err error) int32 {
	var ce mongo.CommandError
	var we mongo.WriteException
	switch {
	case errors.As(err, &ce):
		return ce.Code
	case errors.As(err, &we) && len(we.WriteErrors) > 0:
		return int32(we.WriteErrors[0].Code)
	}
	return 0
}

// holds says whether a member has so many documents.
func holds(t *testing.T, c *mongo.Collection, want int64) {
	t.Helper()
	if n, err := c.CountDocuments(t.Context(), bson.D{}); err != nil || n != want {
		t.Fatalf("%d documents, want %d: %v", n, want, err)
	}
}

// A standalone becomes a set of one by two options and keeps its data. What it writes
// survives kill -9. Data of a set serve no other set, and a standalone only for reading.
func TestSetOfOne(t *testing.T) {
	s := testkit.Start(t)
	c := s.Direct().Database("app").Collection("docs")
	for i := range 100 {
		if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)}); err != nil {
		t.Fatal(err)
	}
	if code := s.Stop(); code != config.ExitClean {
		t.Fatalf("exit code %d", code)
	}
	s.Args = []string{"--replSet", "rs0", "--initiate", "--setParameter", "ttlMonitorSleepSecs=1"}
	for round := range 3 {
		s.Run()
		c = s.Direct().Database("app").Collection("docs")
		until(t, "a write", func() error {
			_, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1000 + round}})
			return err
		})
		if _, err := c.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}); err != nil {
			t.Fatal(err)
		}
		holds(t, c, int64(101+round))
		s.Kill()
	}
	s.Run()
	c = s.Direct().Database("app").Collection("docs")
	until(t, "a document expires", func() error {
		_, err := c.UpdateByID(t.Context(), 0, bson.D{{Key: "$set", Value: bson.D{{Key: "at", Value: time.Now()}}}}, options.UpdateOne().SetUpsert(false))
		if err == nil && c.FindOne(t.Context(), bson.D{{Key: "_id", Value: 0}}).Err() == nil {
			err = errors.New("it is still there")
		}
		return err
	})
	holds(t, c, 102)
	var shown struct {
		Set     string `bson:"_id"`
		Members []bson.M
	}
	until(t, "the configuration", func() error {
		return s.Direct().Database("local").Collection("system.replset").FindOne(t.Context(), bson.D{}).Decode(&shown)
	})
	if shown.Set != "rs0" || len(shown.Members) != 1 || shown.Members[0]["host"] != fmt.Sprintf("localhost:%d", s.Port) || shown.Members[0]["raft"] != nil {
		t.Errorf("local.system.replset has %+v", shown)
	}
	// Not killed: who starts without the set does not replay the log.
	if code := s.Stop(); code != config.ExitClean {
		t.Errorf("exit code %d", code)
	}
	apart(t, s)
	s.Args = []string{"--replSet", "rs0"}
	s.Run()
	c = s.Direct().Database("app").Collection("docs")
	until(t, "a write", func() error {
		_, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 2000}})
		return err
	})
	holds(t, c, 103)
	if code := s.Stop(); code != config.ExitClean {
		t.Errorf("exit code %d", code)
	}
}

// apart starts servers that are not the member on the data of a member.
func apart(t *testing.T, s *testkit.Server) {
	t.Helper()
	args := []string{"serve", "--nounixsocket", "--dbpath", s.Dir, "--port", fmt.Sprint(s.Port)}
	exit, said := testkit.Exec(t, nil, append(args, "--replSet", "rs1")...)
	if exit != config.ExitUncaught || !strings.Contains(said, "belong to the replica set rs0, but the member was started for rs1") {
		t.Errorf("a member of another set: exit code %d, %s", exit, said)
	}
	exit, said = testkit.Exec(t, nil, append(args, "--initiate")...)
	if exit != config.ExitBadOptions || !strings.Contains(said, "needs replication.replSetName") {
		t.Errorf("--initiate alone: exit code %d, %s", exit, said)
	}
	s.Args = nil
	s.Run()
	c := s.Direct().Database("app").Collection("docs")
	holds(t, c, 102)
	if _, err := c.InsertOne(t.Context(), bson.D{}); code(err) != 20 || !strings.Contains(err.Error(), "member of the replica set rs0") {
		t.Errorf("a write to the data of a member: %v", err)
	}
	if !strings.Contains(s.Output(), "started without --replSet") {
		t.Error("the log does not warn")
	}
	s.Kill()
}
