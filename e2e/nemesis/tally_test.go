package nemesis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// tally has clients increment counters: a document for each hundred increments, all of
// whose clients meet in it. Each increment pushes a token beside it, so that one that was
// lost or counted twice has a name.
type tally struct {
	*ledger
	collection *mongo.Collection
	next       atomic.Int64
	others     []*foreign
}

const (
	tallyClients = 4
	tallyEach    = 100
)

func newTally(s *set) *tally {
	y := &tally{ledger: newLedger(), collection: s.connect().Database("app").Collection("tallies")}
	for _, f := range foreigners {
		y.others = append(y.others, &foreign{foreigner: f, uri: s.uri()})
	}
	return y
}

func (y *tally) run(ctx context.Context) {
	var others sync.WaitGroup
	for _, f := range y.others {
		others.Go(func() { f.run(ctx) })
	}
	defer others.Wait()
	clients(ctx, tallyClients, func(ctx context.Context, client int) {
		n := y.next.Add(1)
		token := fmt.Sprintf("go-%d", n)
		_ = y.write(token, func() error {
			_, err := y.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: n / tallyEach}},
				bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}, {Key: "$push", Value: bson.D{{Key: "by", Value: token}}}},
				options.UpdateOne().SetUpsert(true))
			return err
		})
	})
}

func (y *tally) check(t *testing.T) {
	var docs []struct {
		ID any      `bson:"_id"`
		N  int      `bson:"n"`
		By []string `bson:"by"`
	}
	all(t, y.collection, &docs)
	found := map[string]int{}
	for _, d := range docs {
		if d.N != len(d.By) {
			t.Errorf("tally %v counts %d for %d increments", d.ID, d.N, len(d.By))
		}
		for _, token := range d.By {
			found[token]++
		}
	}
	for _, f := range y.others {
		f.check(t, found)
	}
	y.judge(t, "tally", found)
}

// all reads a collection.
func all(t *testing.T, c *mongo.Collection, docs any) {
	t.Helper()
	cur, err := c.Find(t.Context(), bson.D{})
	if err == nil {
		err = cur.All(t.Context(), docs)
	}
	if err != nil {
		t.Fatalf("%s: %v", c.Name(), err)
	}
}
