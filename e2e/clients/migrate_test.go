package clients

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4"
	migratedb "github.com/golang-migrate/migrate/v4/database"
	_ "github.com/golang-migrate/migrate/v4/database/mongodb"
	_ "github.com/golang-migrate/migrate/v4/source/file"
	"go.mongodb.org/mongo-driver/bson"
)

// TestMigrate makes a TTL index by one migration and a longer time by the next,
// sees a document leave, and goes back. A second migrator that comes meanwhile finds
// the lock taken.
func TestMigrate(t *testing.T) {
	db := database(t, "e2e_migrate")
	dir := t.TempDir()
	for name, commands := range map[string]string{
		"1_sessions.up.json": `[{"createIndexes": "sessions", "indexes": [{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}]},
			{"insert": "sessions", "documents": [{"_id": "old", "at": {"$date": {"$numberLong": "1577836800000"}}}]}]`,
		"1_sessions.down.json": `[{"dropIndexes": "sessions", "index": "at"}]`,
		"2_longer.up.json":     `[{"collMod": "sessions", "index": {"keyPattern": {"at": 1}, "expireAfterSeconds": {"$numberLong": "3600"}}}]`,
		"2_longer.down.json":   `[{"collMod": "sessions", "index": {"keyPattern": {"at": 1}, "expireAfterSeconds": {"$numberLong": "0"}}}]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(commands), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := migrate.New("file://"+dir, uri(t)+"/"+db.Name()+"?x-advisory-lock-timeout=1&x-advisory-lock-timeout-interval=1")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	version := func(want uint) {
		t.Helper()
		if v, dirty, err := m.Version(); err != nil || dirty || v != want {
			t.Fatalf("version %d, dirty %v, %v", v, dirty, err)
		}
	}
	c := db.Collection("sessions")

	if err := m.Steps(1); err != nil {
		t.Fatal(err)
	}
	version(1)
	expires(t, c, "at", 0)
	left(t, c, 0)

	if err := m.Up(); err != nil {
		t.Fatal(err)
	}
	version(2)
	expires(t, c, "at", 3600)
	if err := m.Up(); !errors.Is(err, migrate.ErrNoChange) {
		t.Fatal(err)
	}

	// The lock is a document under a unique index.
	locks := db.Collection("migrate_advisory_lock")
	if _, err := locks.InsertOne(t.Context(), bson.D{{Key: "locking_key", Value: 0}, {Key: "created_at", Value: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	if err := m.Down(); !errors.Is(err, migratedb.ErrLocked) {
		t.Fatalf("with the lock taken: %v", err)
	}
	if _, err := locks.DeleteMany(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	if err := m.Down(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Version(); !errors.Is(err, migrate.ErrNilVersion) {
		t.Fatal(err)
	}
	if specs, err := c.Indexes().ListSpecifications(t.Context()); err != nil || len(specs) != 1 {
		t.Fatalf("%d indexes, %v", len(specs), err)
	}
}
