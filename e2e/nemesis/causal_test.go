package nemesis

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

const (
	causalClients = 3
	// causalReads are the reads that follow a write in a session.
	causalReads = 3
)

// causal has clients write on the primary and read on secondaries in causally consistent
// sessions: each reads what it has written, and nothing older than it has read.
type causal struct {
	client  *mongo.Client
	mu      sync.Mutex
	written [causalClients]int
	reads   int
	broken  []string
	errors  failures
}

func newCausal(s *set) *causal { return &causal{client: s.connect(), errors: failures{}} }

func (c *causal) run(ctx context.Context) {
	clients(ctx, causalClients, func(ctx context.Context, client int) {
		if err := c.client.UseSession(ctx, func(ctx context.Context) error { return c.session(ctx, client) }); err != nil {
			c.mu.Lock()
			c.errors.note(err)
			c.mu.Unlock()
		}
	})
}

// session writes and reads until an error.
func (c *causal) session(ctx context.Context, client int) error {
	db := c.client.Database("app")
	secondary := db.Collection("causal", options.Collection().SetReadPreference(readpref.Secondary()))
	for range 20 {
		c.mu.Lock()
		c.written[client]++
		least := c.written[client]
		c.mu.Unlock()
		if _, err := db.Collection("causal").UpdateOne(ctx, bson.D{{Key: "_id", Value: client}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: least}}}}, options.UpdateOne().SetUpsert(true)); err != nil {
			return err
		}
		for range causalReads {
			var d struct{ V int }
			err := secondary.FindOne(ctx, bson.D{{Key: "_id", Value: client}}).Decode(&d)
			if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
				return err
			}
			c.note(client, d.V, least)
			least = d.V
		}
	}
	return nil
}

// note judges a read.
func (c *causal) note(client, read, least int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	if read < least {
		c.broken = append(c.broken, bson.D{{Key: "client", Value: client}, {Key: "read", Value: read}, {Key: "after", Value: least}}.String())
	}
}

func (c *causal) check(t *testing.T) {
	t.Logf("causal: %d reads; errors: %v", c.reads, c.errors)
	if len(c.broken) > 0 {
		t.Errorf("causal: reads of what was older: %v", c.broken)
	}
	if c.reads == 0 {
		t.Error("causal: nothing was read")
	}
}
