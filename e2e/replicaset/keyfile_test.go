package replicaset

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// tells demands that a server's log has something.
func tells(t *testing.T, s *testkit.Server, what string) {
	t.Helper()
	until(t, "a line of the log", func() error {
		if !strings.Contains(s.Output(), what) {
			return errors.New(what)
		}
		return nil
	})
}

// Processes that share a key file make a set, whose clients must authenticate. One with
// another key is let in by nobody and lets nobody in, and its log says so; nor is a
// client, or who speaks the members' protocol without the key.
func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	key := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours, other := key("ours", "b3VycyBhbG9uZQ=="), key("other", "YW5vdGhlciBvbmU=")
	a := testkit.Start(t, "--replSet", "rs0", "--initiate", "--keyFile", ours)
	b := testkit.Start(t, "--replSet", "rs0", "--keyFile", ours)
	stranger := testkit.Start(t, "--replSet", "rs0", "--keyFile", other)

	anybody := a.Direct().Database("admin")
	until(t, "the first user", func() error {
		return anybody.RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}}).Err()
	})
	if err := anybody.RunCommand(t.Context(), bson.D{{Key: "replSetGetConfig", Value: 1}}).Err(); code(err) != 13 {
		t.Errorf("the configuration, for anybody: %v", err)
	}
	root, err := mongo.Connect(options.Client().ApplyURI(fmt.Sprintf("mongodb://root:pw@%s/?directConnection=true", host(a))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Disconnect(t.Context()) }()
	add := func(hosts ...string) error {
		members := bson.A{}
		for i, h := range hosts {
			members = append(members, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: h}})
		}
		return root.Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetReconfig", Value: bson.D{{Key: "_id", Value: "rs0"}, {Key: "version", Value: 2}, {Key: "members", Value: members}}}}).Err()
	}
	if err := add(host(a), host(stranger)); code(err) != 74 {
		t.Errorf("a member with another key: %v", err)
	}
	tells(t, stranger, "replication: refused")
	if err := add(host(a), host(b)); err != nil {
		t.Fatal(err)
	}
	until(t, "a write on both", func() error {
		return root.Database("app").RunCommand(t.Context(), bson.D{{Key: "insert", Value: "docs"}, {Key: "documents", Value: bson.A{bson.D{}}},
			{Key: "writeConcern", Value: bson.D{{Key: "w", Value: 2}, {Key: "wtimeout", Value: 1000}}}}).Err()
	})
	c, err := net.Dial("tcp", host(a))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x00", 200))); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if n, err := c.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
		t.Errorf("who has no key is answered: %d bytes, %v", n, err)
	}
}
