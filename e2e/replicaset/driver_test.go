package replicaset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"go.mongodb.org/mongo-driver/v2/tag"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// startSet starts a set of so many processes, whose first member is the first primary,
// and waits until all serve.
func startSet(t *testing.T, n int) []*testkit.Server {
	t.Helper()
	var all []*testkit.Server
	var members bson.A
	for i := range n {
		s := testkit.Start(t, "--replSet", "rs0")
		all = append(all, s)
		members = append(members, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: hostOf(s)}, {Key: "priority", Value: n - i},
			{Key: "tags", Value: bson.D{{Key: "dc", Value: fmt.Sprint("dc", i)}}}})
	}
	config := bson.D{{Key: "_id", Value: "rs0"}, {Key: "members", Value: members},
		{Key: "settings", Value: bson.D{{Key: "getLastErrorModes", Value: bson.D{{Key: "all", Value: bson.D{{Key: "dc", Value: n}}}}}}}}
	if err := all[0].Direct().Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetInitiate", Value: config}}).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "all members serve", func() error {
		var status struct{ Members []struct{ StateStr string } }
		err := all[0].Direct().Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetGetStatus", Value: 1}}).Decode(&status)
		for i, m := range status.Members {
			want := "SECONDARY"
			if i == 0 {
				want = "PRIMARY"
			}
			if m.StateStr != want {
				err = errors.Join(err, fmt.Errorf("member %d is %s", i, m.StateStr))
			}
		}
		return errors.Join(err, allVote(t, all[0].Direct()))
	})
	return all
}

func hostOf(s *testkit.Server) string { return fmt.Sprintf("localhost:%d", s.Port) }

// asked notes which member each command went to.
type asked struct {
	mu sync.Mutex
	by map[string]string // command → host of the last one
}

func (a *asked) host(command string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.by[command]
}

// connect connects to a set by the address of one member.
func connect(t testing.TB, s *testkit.Server, o *options.ClientOptions) (*mongo.Client, *asked) {
	t.Helper()
	a := &asked{by: map[string]string{}}
	o = options.MergeClientOptions(options.Client().ApplyURI("mongodb://"+hostOf(s)+"/?replicaSet=rs0").SetServerSelectionTimeout(patience).
		SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			host, _, _ := strings.Cut(e.ConnectionID, "[")
			a.mu.Lock()
			a.by[e.CommandName] = host
			a.mu.Unlock()
		}}), o)
	return testkit.Connect(t, o), a
}

// TestDriverOnSet holds that the official driver sees a set as MongoDB's: where it
// reads and writes, concerns, causal sessions, and that a step-down and a kill cost it
// nothing that was acknowledged.
func TestDriverOnSet(t *testing.T) {
	set := startSet(t, 3)
	c, went := connect(t, set[1], options.Client())
	docs := c.Database("app").Collection("docs")
	for _, w := range []*writeconcern.WriteConcern{nil, writeconcern.W1(), writeconcern.Majority(), {W: 3}, {W: "all"}} {
		if _, err := c.Database("app").Collection("docs", options.Collection().SetWriteConcern(w)).InsertOne(t.Context(), bson.D{{Key: "w", Value: fmt.Sprint(w)}}); err != nil {
			t.Errorf("write concern %v: %v", w, err)
		}
	}
	if went.host("insert") != hostOf(set[0]) {
		t.Errorf("writes went to %s", went.host("insert"))
	}
	readsWhereAsked(t, c, went, set)
	causal(t, c)
	writesFromSecondary(t, c, went, set)
	acknowledged := &sync.Map{}
	insert := func(id int) error {
		_, err := docs.InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}})
		if err == nil {
			acknowledged.Store(id, true)
		}
		return err
	}
	for id := range 50 {
		if err := insert(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetStepDown", Value: 60}}).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "a write after the step-down", func() error { return insert(50) })
	if went.host("insert") == hostOf(set[0]) {
		t.Error("who stepped down takes writes")
	}
	for _, s := range set {
		if hostOf(s) == went.host("insert") {
			s.Kill()
		}
	}
	until(t, "a write after the kill", func() error { return insert(51) })
	for id := 52; id < 100; id++ {
		if err := insert(id); err != nil {
			t.Errorf("%d: %v", id, err)
		}
	}
	acknowledged.Range(func(id, _ any) bool {
		if err := docs.FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Err(); err != nil {
			t.Errorf("document %v: %v", id, err)
		}
		return true
	})
}

// readsWhereAsked reads with each read preference.
func readsWhereAsked(t *testing.T, c *mongo.Client, went *asked, set []*testkit.Server) {
	t.Helper()
	tagged, err := readpref.New(readpref.SecondaryMode, readpref.WithTagSets(tag.Set{{Name: "dc", Value: "dc2"}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		pref    *readpref.ReadPref
		primary bool
		host    string
	}{
		{readpref.Primary(), true, hostOf(set[0])}, {readpref.PrimaryPreferred(), true, hostOf(set[0])},
		{readpref.Secondary(), false, ""}, {readpref.SecondaryPreferred(), false, ""}, {tagged, false, hostOf(set[2])},
	} {
		docs := c.Database("app").Collection("docs", options.Collection().SetReadPreference(r.pref).SetReadConcern(readconcern.Majority()))
		if n, err := docs.CountDocuments(t.Context(), bson.D{}); err != nil || n != 5 {
			t.Errorf("%v: %d documents: %v", r.pref, n, err)
		}
		host := went.host("aggregate")
		if (host == hostOf(set[0])) != r.primary || r.host != "" && host != r.host {
			t.Errorf("%v went to %s", r.pref, host)
		}
	}
	docs := c.Database("app").Collection("docs", options.Collection().SetReadConcern(readconcern.Linearizable()))
	if n, err := docs.CountDocuments(t.Context(), bson.D{}); err != nil || n != 5 {
		t.Errorf("linearizable: %d documents: %v", n, err)
	}
	if _, err := c.Database("app").Collection("docs", options.Collection().SetReadPreference(readpref.Nearest())).Distinct(t.Context(), "w", bson.D{}).Raw(); err != nil {
		t.Errorf("nearest: %v", err)
	}
}

// writesFromSecondary runs a pipeline that writes where the read preference sends it: the
// secondary has the primary run it, and what it wrote can be read there at once.
func writesFromSecondary(t *testing.T, c *mongo.Client, went *asked, set []*testkit.Server) {
	t.Helper()
	from := c.Database("app").Collection("docs", options.Collection().SetReadPreference(readpref.Secondary()))
	for _, stage := range []bson.D{{{Key: "$out", Value: "copy"}}, {{Key: "$merge", Value: "copy"}}} {
		cur, err := from.Aggregate(t.Context(), bson.A{stage})
		if err != nil {
			t.Fatalf("%v: %v", stage, err)
		}
		if err := cur.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if went.host("aggregate") == hostOf(set[0]) {
			t.Errorf("%v went to the primary", stage)
		}
		if n, err := c.Database("app").Collection("copy", options.Collection().SetReadPreference(readpref.Primary())).CountDocuments(t.Context(), bson.D{}); err != nil || n != 5 {
			t.Errorf("%v wrote %d documents: %v", stage, n, err)
		}
	}
	var refused mongo.CommandError
	if _, err := from.Aggregate(t.Context(), bson.A{bson.D{{Key: "$out", Value: "bad$name"}}}); !errors.As(err, &refused) || refused.Code != 20 {
		t.Errorf("a collection that cannot be: %v", err)
	}
}

// causal writes on the primary and reads on secondaries within one session: each read
// sees the write before it.
func causal(t *testing.T, c *mongo.Client) {
	t.Helper()
	secondary := c.Database("app").Collection("causal", options.Collection().SetReadPreference(readpref.Secondary()))
	primary := c.Database("app").Collection("causal")
	err := c.UseSession(t.Context(), func(ctx context.Context) error {
		for i := range 100 {
			if _, err := primary.InsertOne(ctx, bson.D{{Key: "_id", Value: i}}); err != nil {
				return err
			}
			if err := secondary.FindOne(ctx, bson.D{{Key: "_id", Value: i}}).Err(); err != nil {
				return fmt.Errorf("document %d on a secondary: %w", i, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
