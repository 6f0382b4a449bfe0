package replicaset

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// block has a client block user writes, or end that.
func block(t *testing.T, c *mongo.Client, on bool) error {
	return c.Database("admin").RunCommand(t.Context(), bson.D{{Key: "setUserWriteBlockMode", Value: 1}, {Key: "global", Value: on}}).Err()
}

// Where user writes are blocked, the next primary blocks them, too, and so does a set that
// was killed as a whole; secondaries know of it. Documents that are due stay.
func TestUserWritesStayBlocked(t *testing.T) {
	w := start(t, "--setParameter", "ttlMonitorSleepSecs=1")
	p := w.primary(-1)
	docs := w.all.Database("app").Collection("docs")
	if _, err := docs.InsertOne(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	blocked := func() {
		t.Helper()
		until(t, "a refusal", func() error {
			_, err := docs.InsertOne(t.Context(), bson.D{})
			if err == nil {
				t.Fatal("a write where they are blocked")
			}
			if code(err) != 371 {
				return err
			}
			return nil
		})
		for i := range w.members {
			until(t, "all members to know", func() error {
				var s struct {
					Repl struct{ UserWriteBlockMode int }
				}
				if err := w.clients[i].Database("admin").RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&s); err != nil {
					return err
				}
				if s.Repl.UserWriteBlockMode != 2 {
					return fmt.Errorf("member %d: %d", i, s.Repl.UserWriteBlockMode)
				}
				return nil
			})
		}
	}
	if err := block(t, w.clients[(p+1)%3], true); code(err) != 10107 {
		t.Errorf("on a secondary: %v", err)
	}
	if err := block(t, w.clients[p], true); err != nil {
		t.Fatal(err)
	}
	blocked()
	w.members[p].Kill()
	w.primary(p)
	w.members[p].Run()
	w.healthy()
	blocked()
	for _, m := range w.members {
		m.Kill()
	}
	for _, m := range w.members {
		m.Run()
	}
	w.healthy()
	blocked()
	holds(t, docs, 1)
	if err := block(t, w.clients[w.primary(-1)], false); err != nil {
		t.Fatal(err)
	}
	if _, err := docs.InsertOne(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
}

// With access control some may block user writes, and some write all the same.
func TestWhoMayBlockUserWrites(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("b3VycyBhbG9uZQ=="), 0o400); err != nil {
		t.Fatal(err)
	}
	s := testkit.Start(t, "--replSet", "rs0", "--initiate", "--keyFile", key)
	create := func(c *mongo.Client, name string, roles ...string) error {
		return c.Database("admin").RunCommand(t.Context(), bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: roles}}).Err()
	}
	until(t, "the first user", func() error { return create(s.Direct(), "root", "root") })
	login := func(name string) *mongo.Client {
		return testkit.Connect(t, options.Client().ApplyURI(strings.Replace(s.URI(), "//", "//"+name+":pw@", 1)+"?directConnection=true").SetServerSelectionTimeout(patience))
	}
	root := login("root")
	if err := create(root, "app", "readWriteAnyDatabase"); err != nil {
		t.Fatal(err)
	}
	if err := create(root, "copy", "readWriteAnyDatabase", "restore"); err != nil {
		t.Fatal(err)
	}
	app, restore := login("app"), login("copy")
	insert := func(c *mongo.Client) error {
		_, err := c.Database("app").Collection("docs").InsertOne(t.Context(), bson.D{})
		return err
	}
	if err := block(t, app, true); code(err) != 13 {
		t.Errorf("a user without the privilege: %v", err)
	}
	if err := block(t, restore, true); err != nil {
		t.Fatal(err)
	}
	if err := insert(app); code(err) != 371 {
		t.Errorf("a user without the privilege writes: %v", err)
	}
	if err := insert(restore); err != nil {
		t.Errorf("a user with the privilege: %v", err)
	}
	if err := create(root, "late", "read"); err != nil {
		t.Errorf("a new user: %v", err)
	}
	if err := block(t, restore, false); err != nil {
		t.Fatal(err)
	}
	if err := insert(app); err != nil {
		t.Error(err)
	}
}
