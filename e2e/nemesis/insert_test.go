package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	insertClients = 2
	insertMost    = 5 // documents in one insertMany
)

// inserts has clients insert documents, one or several at once, each with content of its
// own. An insert that is executed twice meets its own _id: nobody may be answered 11000.
type inserts struct {
	*ledger
	collection *mongo.Collection
	next       atomic.Int64

	duplicates atomic.Pointer[error]
}

func newInserts(s *set) *inserts {
	return &inserts{ledger: newLedger(), collection: s.connect().Database("app").Collection("inserts")}
}

func (n *inserts) run(ctx context.Context) {
	clients(ctx, insertClients, func(ctx context.Context, _ int) {
		var docs []any
		for range 1 + rand.IntN(insertMost) {
			docs = append(docs, fmt.Sprintf("insert-%d", n.next.Add(1)))
		}
		n.insert(ctx, docs)
	})
}

// insert inserts a document for each token; they are acknowledged together.
func (n *inserts) insert(ctx context.Context, tokens []any) {
	docs := make([]any, len(tokens))
	for i, token := range tokens {
		docs[i] = bson.D{{Key: "_id", Value: token}, {Key: "content", Value: fmt.Sprint("content of ", token)}}
	}
	var once sync.Once
	var err error
	for _, token := range tokens {
		_ = n.write(token.(string), func() error {
			once.Do(func() { _, err = n.collection.InsertMany(ctx, docs) })
			return err
		})
	}
	if mongo.IsDuplicateKeyError(err) {
		n.duplicates.Store(&err)
	}
}

func (n *inserts) check(t *testing.T) {
	var docs []struct {
		ID      string `bson:"_id"`
		Content string
	}
	all(t, n.collection, &docs)
	found := map[string]int{}
	for _, d := range docs {
		found[d.ID]++
		if d.Content != "content of "+d.ID {
			t.Errorf("inserts: %s has the content %q", d.ID, d.Content)
		}
	}
	n.judge(t, "inserts", found)
	if err := n.duplicates.Load(); err != nil {
		t.Errorf("inserts: executed twice: %v", *err)
	}
}
