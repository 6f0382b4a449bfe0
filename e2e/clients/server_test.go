package clients

import (
	"context"
	"os"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// patience is how long a removal may take on a busy machine.
const patience = time.Minute

// uri is the address of the server under test.
func uri(t *testing.T) string {
	t.Helper()
	u := os.Getenv("MAYFLY_URI")
	if u == "" {
		t.Fatal("MAYFLY_URI is not set: e2e/run starts a server and sets it")
	}
	return u
}

// database is an empty one, seen by a client of the test's own.
func database(t *testing.T, name string) *mongo.Database {
	t.Helper()
	client, err := mongo.Connect(t.Context(), options.Client().ApplyURI(uri(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	db := client.Database(name)
	if err := db.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// expires checks that a collection has a TTL index on a field.
func expires(t *testing.T, c *mongo.Collection, field string, after int32) {
	t.Helper()
	specs, err := c.Indexes().ListSpecifications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		if e, err := s.KeysDocument.IndexErr(0); err == nil && e.Key() == field {
			if s.ExpireAfterSeconds == nil || *s.ExpireAfterSeconds != after {
				t.Errorf("index %s: %v, not %d", s.Name, s.ExpireAfterSeconds, after)
			}
			return
		}
	}
	t.Errorf("no index of %s begins with %s", c.Name(), field)
}

// left waits until a collection holds n documents.
func left(t *testing.T, c *mongo.Collection, n int64) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		got, err := c.CountDocuments(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d documents of %s are left, not %d", got, c.Name(), n)
		}
	}
}
