package upgrade

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// from is the binary of the build to come from: make test-upgrade builds it.
var from = flag.String("upgrade.from", "", "binary of another build, from which a set is upgraded and to which it goes back")

// TestRolling holds that a set goes from one build to another member by member while it is
// written, with both builds in it, and back again: everything acknowledged is on every member
// then. Without another build it is one build twice, which tests the test.
func TestRolling(t *testing.T) {
	old := *from
	if old == "" {
		old = testkit.Binary(t)
	}
	const n = 3
	var members [n]*testkit.Server
	var hosts []string
	for i := range members {
		members[i] = testkit.StartBinary(t, old, "--replSet", "rs0")
		hosts = append(hosts, fmt.Sprintf("127.0.0.1:%d", members[i].Port))
	}
	config := bson.D{{Key: "_id", Value: "rs0"}, {Key: "settings", Value: bson.D{{Key: "electionTimeoutMillis", Value: 1000}}}}
	var list bson.A
	for i, h := range hosts {
		list = append(list, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: h}})
	}
	if err := members[0].Direct().Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetInitiate", Value: append(config, bson.E{Key: "members", Value: list})}}).Err(); err != nil {
		t.Fatal(err)
	}
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + strings.Join(hosts, ",") + "/?replicaSet=rs0&w=majority"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Disconnect(t.Context()) }()
	coll := c.Database("shop").Collection("orders")
	if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(3600)}); err != nil {
		t.Fatal(err)
	}
	written := 0
	some := func() {
		t.Helper()
		for range 20 {
			if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: written}, {Key: "at", Value: far}}); err != nil {
				t.Fatal(err)
			}
			written++
		}
		session, err := c.StartSession()
		if err != nil {
			t.Fatal(err)
		}
		defer session.EndSession(t.Context())
		_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
			return coll.InsertMany(ctx, []any{bson.D{{Key: "_id", Value: written}, {Key: "at", Value: far}}, bson.D{{Key: "_id", Value: written + 1}, {Key: "at", Value: far}}})
		})
		if err != nil {
			t.Fatal(err)
		}
		written += 2
		// What is due goes, on whichever build is the primary.
		if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: -written}, {Key: "at", Value: time.Now().Add(-2 * time.Hour)}}); err != nil {
			t.Fatal(err)
		}
	}
	some()
	for _, to := range []string{testkit.Binary(t), old} {
		for _, m := range members {
			m.Stop()
			some() // with two members
			m.Binary = to
			m.Run()
			some() // with both builds
		}
	}
	for i, m := range members {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			count, err := m.Direct().Database("shop").Collection("orders").CountDocuments(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: 0}}}})
			if err == nil && count == int64(written) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("member %d has %d documents, %v; want %d", i, count, err, written)
			}
		}
	}
}
