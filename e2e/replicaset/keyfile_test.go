package replicaset

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
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

// Three processes that share a key file make a set, whose clients must authenticate and
// which survives its primary. One with another key, or none, is let in by nobody and lets
// nobody in, and both sides' logs say why; nor is a client let in, or who speaks the
// members' protocol without the key.
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
	c := testkit.Start(t, "--replSet", "rs0", "--keyFile", ours)
	stranger := testkit.Start(t, "--replSet", "rs0", "--keyFile", other)

	anybody := a.Direct().Database("admin")
	until(t, "the first user", func() error {
		return anybody.RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}}).Err()
	})
	if err := anybody.RunCommand(t.Context(), bson.D{{Key: "replSetGetConfig", Value: 1}}).Err(); code(err) != 13 {
		t.Errorf("the configuration, for anybody: %v", err)
	}
	login := func(uri string) *mongo.Client {
		return testkit.Connect(t, options.Client().ApplyURI(uri).SetServerSelectionTimeout(patience))
	}
	root := login(fmt.Sprintf("mongodb://root:pw@%s/?directConnection=true", host(a)))
	version := 1
	add := func(hosts ...string) error {
		members := bson.A{}
		for i, h := range hosts {
			members = append(members, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: h}})
		}
		err := root.Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetReconfig", Value: bson.D{{Key: "_id", Value: "rs0"}, {Key: "version", Value: version + 1}, {Key: "members", Value: members}}}}).Err()
		if err == nil {
			version++
		}
		return err
	}
	if err := add(host(a), host(stranger)); code(err) != 74 {
		t.Errorf("a member with another key: %v", err)
	}
	const refused, denied = "replication: refused", "replication: cannot connect to a member"
	logged(t, a, denied, host(stranger), "the other process has another key")
	logged(t, stranger, refused, "it has another key (keyFile), or none")
	if err := add(host(a), host(b)); err != nil {
		t.Fatal(err)
	}
	until(t, "a third member is added", func() error { return add(host(a), host(b), host(c)) })
	set := login(fmt.Sprintf("mongodb://root:pw@%s,%s,%s/?replicaSet=rs0", host(a), host(b), host(c)))
	onAll := func(what string) {
		t.Helper()
		until(t, what, func() error {
			return set.Database("app").RunCommand(t.Context(), bson.D{{Key: "insert", Value: "docs"}, {Key: "documents", Value: bson.A{bson.D{}}},
				{Key: "writeConcern", Value: bson.D{{Key: "w", Value: 3}, {Key: "wtimeout", Value: 1000}}}}).Err()
		})
	}
	onAll("a write on all three")
	until(t, "all vote", func() error { return allVote(t, root) })

	// One that comes back with another key, or without one, is not taken for a member.
	again := func(args ...string) {
		c.Stop()
		c.Args = append([]string{"--replSet", "rs0"}, args...)
		c.Run()
	}
	again("--keyFile", other)
	logged(t, a, denied, host(c), "the other process has another key")
	logged(t, c, refused, "it has another key (keyFile), or none")
	logged(t, a, refused, "it has another key (keyFile), or none")
	logged(t, c, denied, host(b), "the other process has another key")
	again()
	logged(t, a, refused, "the other process has no key (keyFile), and this one has one")
	logged(t, c, denied, host(b), "it may have a key (keyFile), and this one has none")
	logged(t, a, denied, host(c), "it has another key (keyFile), or none")
	logged(t, c, refused, "the other process has a key (keyFile), and this one has none")
	again("--keyFile", ours)
	onAll("a write on all three, when the key is right again")

	a.Kill()
	if _, err := set.Database("app").Collection("docs").InsertOne(t.Context(), bson.D{}); err != nil {
		t.Errorf("a write without the primary: %v", err)
	}
	strangerIsAlone(t, b)
}

// logged demands a line of a server's log that has all of some texts.
func logged(t *testing.T, s *testkit.Server, texts ...string) {
	t.Helper()
	until(t, "a line of the log", func() error {
		for line := range strings.Lines(s.Output()) {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				return nil
			}
		}
		return fmt.Errorf("no line with %q", texts)
	})
}

// strangerIsAlone holds that who speaks the members' protocol without the key gets no
// answer.
func strangerIsAlone(t *testing.T, s *testkit.Server) {
	t.Helper()
	c, err := net.Dial("tcp", host(s))
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
