package replicaset

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// syncStatus is what rs.status() says of a member that receives the data of its set.
type syncStatus struct {
	MyState           int
	InitialSyncStatus struct {
		ApproxTotalDataSize, ApproxTotalBytesCopied, RemainingInitialSyncEstimatedMillis int64
	}
}

// copying waits until a member has received more than so many bytes, and has not all.
func copying(t *testing.T, c *mongo.Client, more int64) (copied int64) {
	t.Helper()
	until(t, "a part has arrived", func() error {
		var s syncStatus
		if err := c.Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetGetStatus", Value: 1}}).Decode(&s); err != nil {
			return err
		}
		p := s.InitialSyncStatus
		if s.MyState != 5 || p.ApproxTotalBytesCopied <= more {
			return fmt.Errorf("%+v", s)
		}
		if copied = p.ApproxTotalBytesCopied; copied >= p.ApproxTotalDataSize || p.RemainingInitialSyncEstimatedMillis <= 0 {
			t.Fatalf("%+v", s)
		}
		return nil
	})
	return copied
}

var keptBytes = regexp.MustCompile(`data of another member were received.*"kept":(\d+)`)

// A member that joins goes on where it was when it is killed in the middle, and when the
// one that sends is; rs.status() tells how far it is, and the rate can be changed.
func TestInitialSyncGoesOn(t *testing.T) {
	from := testkit.Start(t, "--replSet", "rs0", "--initiate", "--setParameter", "initialSyncMaxMBPerSecond=4")
	to := testkit.Start(t, "--replSet", "rs0")
	sender, receiver := from.Direct(), to.Direct()
	c := sender.Database("app").Collection("docs")
	const documents, size = 640, 64 << 10
	for range documents / 64 {
		docs := make([]any, 64)
		for i := range docs {
			noise := make([]byte, size)
			_, _ = rand.Read(noise) // which does not fail
			docs[i] = bson.D{{Key: "noise", Value: noise}}
		}
		if _, err := c.InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	add := bson.D{{Key: "replSetReconfig", Value: bson.D{{Key: "_id", Value: "rs0"}, {Key: "version", Value: 2}, {Key: "members", Value: bson.A{
		bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: hostOfSet(t, sender)}}, bson.D{{Key: "_id", Value: 1}, {Key: "host", Value: host(to)}},
	}}}}}
	if err := sender.Database("admin").RunCommand(t.Context(), add).Err(); err != nil {
		t.Fatal(err)
	}
	first := copying(t, receiver, 8<<20)
	to.Kill()
	to.Run()
	second := copying(t, receiver, first)
	from.Kill()
	from.Run()
	third := copying(t, receiver, second)
	until(t, "the one that sends is primary", func() error {
		return sender.Database("admin").RunCommand(t.Context(), bson.D{{Key: "setParameter", Value: 1}, {Key: "initialSyncMaxMBPerSecond", Value: 0}}).Err()
	})
	until(t, "it is a secondary that has all", func() error {
		var s syncStatus
		if err := receiver.Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetGetStatus", Value: 1}}).Decode(&s); err != nil {
			return err
		}
		if s.MyState != 2 {
			return fmt.Errorf("state %d", s.MyState)
		}
		n, err := receiver.Database("app").Collection("docs", options.Collection().SetReadPreference(readpref.Nearest())).CountDocuments(t.Context(), bson.D{})
		if err == nil && n != documents {
			err = fmt.Errorf("%d documents", n)
		}
		return err
	})
	found := keptBytes.FindStringSubmatch(to.Output())
	if found == nil {
		t.Fatal("the log does not tell that the data were received")
	}
	kept, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil || kept < first {
		t.Errorf("of %d, %d and %d bytes that had arrived %d were kept: %v", first, second, third, kept, err)
	}
	t.Logf("%d, %d and %d bytes had arrived, %d were kept at last", first, second, third, kept)
}

// hostOfSet is the only member of a set of one, as it calls itself.
func hostOfSet(t *testing.T, c *mongo.Client) (name string) {
	t.Helper()
	until(t, "a set of one", func() error {
		var hello struct{ Hosts []string }
		if err := c.Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
			return err
		}
		if len(hello.Hosts) != 1 {
			return errors.New("it has no hosts")
		}
		name = hello.Hosts[0]
		return nil
	})
	return name
}
