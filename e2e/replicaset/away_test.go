package replicaset

import (
	"errors"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// A member that was away for longer than the log reaches back gets the files of the
// primary, keeps what is its own, and has what the others have; and so after a kill.
func TestMemberThatWasAway(t *testing.T) {
	w := start(t, "--oplogSize", "1")
	p := w.primary(-1)
	away := (p + 1) % 3
	if _, err := w.clients[away].Database("local").Collection("mine").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	ws := w.write(2)
	w.members[away].Kill()
	for i := range 40 {
		if _, err := w.all.Database("app").Collection("large").InsertOne(t.Context(), bson.D{{Key: "i", Value: i}, {Key: "text", Value: strings.Repeat("x", 100<<10)}}); err != nil {
			t.Fatal(err)
		}
	}
	log := w.all.Database("local").Collection("oplog.rs")
	until(t, "what it lacks is not in the log any more", func() error {
		err := log.FindOne(t.Context(), bson.D{{Key: "ns", Value: "app.large"}, {Key: "o.i", Value: 0}}).Err()
		switch {
		case errors.Is(err, mongo.ErrNoDocuments):
			return nil
		case err == nil:
			err = errors.New("the first document is in it")
		}
		return err
	})
	w.members[away].Run()
	for round := range 2 {
		until(t, "it has all", func() error {
			n, err := w.clients[away].Database("app").Collection("large", options.Collection().SetReadPreference(readpref.Nearest())).CountDocuments(t.Context(), bson.D{})
			if err == nil && n != 40 {
				err = errors.New("not yet")
			}
			return err
		})
		holds(t, w.clients[away].Database("local").Collection("mine", options.Collection().SetReadPreference(readpref.Nearest())), 1)
		if !strings.Contains(w.members[away].Output(), "a snapshot was installed") && round == 0 {
			t.Error("it has not got a snapshot")
		}
		w.members[away].Kill()
		w.members[away].Run()
	}
	w.check(ws)
	w.members[away].Kill()
	if exit, said := testkit.Exec(t, nil, "verify", "--dbpath", w.members[away].Dir); exit != 0 || !strings.Contains(said, "is intact") {
		t.Errorf("verify: exit code %d, %s", exit, said)
	}
}
