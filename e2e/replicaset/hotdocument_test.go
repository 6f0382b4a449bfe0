package replicaset

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestHotDocument has 64 clients count in one document while the primary is killed. Each
// is told the number that it has counted: no two the same one, and in the end the
// document has as many as were told, and of those that ended with an error at most all.
func TestHotDocument(t *testing.T) {
	const clients, each = 64, 40
	set := start(t)
	var hosts []string
	for _, m := range set.members {
		hosts = append(hosts, host(m))
	}
	c := testkit.Connect(t, options.Client().ApplyURI("mongodb://"+strings.Join(hosts, ",")+"/?replicaSet=rs0").SetServerSelectionTimeout(patience).SetMaxPoolSize(clients))
	docs := c.Database("app").Collection("counters")
	if _, err := docs.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "hot"}, {Key: "n", Value: 0}}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	told, unknown := map[int]bool{}, 0
	half := make(chan struct{})
	count := func() {
		var got struct{ N int }
		err := docs.FindOneAndUpdate(t.Context(), bson.D{{Key: "_id", Value: "hot"}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}},
			options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&got)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			unknown++
			return
		}
		if told[got.N] {
			t.Errorf("two clients have counted %d", got.N)
		}
		if told[got.N] = true; len(told) == clients*each/2 {
			close(half)
		}
	}
	begun := time.Now()
	var counting sync.WaitGroup
	for range clients {
		counting.Go(func() {
			for range each {
				count()
			}
		})
	}
	select {
	case <-half:
	case <-time.After(patience):
		t.Fatalf("half of the updates take more than %s", patience)
	}
	took := time.Since(begun)
	p := set.primary(-1)
	var s struct {
		Metrics struct {
			Repl struct{ Pending bson.M }
		}
	}
	if err := set.clients[p].Database("admin").RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&s); err != nil {
		t.Fatal(err)
	}
	if n, _ := s.Metrics.Repl.Pending["evaluatedOn"].(int64); n == 0 {
		t.Errorf("no update was evaluated on another one that was pending: %v", s.Metrics.Repl.Pending)
	}
	set.members[p].Kill()
	counting.Wait()
	var got struct{ N int }
	until(t, "the document", func() error { return docs.FindOne(t.Context(), bson.D{{Key: "_id", Value: "hot"}}).Decode(&got) })
	if len(told)+unknown != clients*each || got.N < len(told) || got.N > len(told)+unknown {
		t.Errorf("the document has %d; %d were told, %d ended with an error", got.N, len(told), unknown)
	}
	for n := range told {
		if n < 1 || n > got.N {
			t.Errorf("a client has counted %d, the document has %d", n, got.N)
		}
	}
	set.members[p].Run()
	until(t, "all members have the same", func() error {
		first, err := set.hash(0)
		for i := 1; err == nil && i < len(set.members); i++ {
			var h string
			if h, err = set.hash(i); err == nil && h != first {
				err = fmt.Errorf("member %d differs", i)
			}
		}
		return err
	})
	t.Logf("%d updates of one document by %d clients in %s, %d ended with an error; pending: %v", clients*each/2, clients, took, unknown, s.Metrics.Repl.Pending)
}
