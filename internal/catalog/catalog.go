package catalog

import (
	"context"
	"log/slog"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Committer makes units take effect: on a standalone by the engine itself, in
// a replica set through its log. Package repl has them.
type Committer interface {
	// Commit ends the unit; see storage.Unit.Commit.
	Commit(ctx context.Context, u *storage.Unit, d storage.Durability) error
}

// Options configures a catalog.
type Options struct {
	Committer Committer    // nil: the engine commits
	Log       *slog.Logger // nil: discard
}

// Catalog is all collections of an engine. Safe for use by many goroutines.
type Catalog struct {
	engine *storage.Engine
}

// Open loads the catalog, and removes what unfinished index builds left.
func Open(e *storage.Engine, opts Options) (*Catalog, error) { return &Catalog{engine: e}, nil }

// Close stops index builds and waits for them. The engine stays open.
func (c *Catalog) Close() error { return nil }

// Engine is the store below.
func (c *Catalog) Engine() *storage.Engine { return c.engine }

// Lookup finds a collection or view, or returns nil.
func (c *Catalog) Lookup(ns schema.Namespace) *Collection { return nil }

// LookupUUID finds a collection by UUID, or returns nil.
func (c *Catalog) LookupUUID(id UUID) *Collection { return nil }

// Databases returns the names of the databases that have a collection, sorted.
func (c *Catalog) Databases() []string { return nil }

// Collections returns the collections and views of a database, sorted by name.
func (c *Catalog) Collections(db string) []*Collection { return nil }

// TTL returns the indexes with expireAfterSeconds of all collections.
func (c *Catalog) TTL() []TTLIndex { return nil }

// TTLIndex is an index by which documents expire.
type TTLIndex struct {
	Collection *Collection
	Index      *Index
}

// Create makes a collection or view. indexes are further indexes than the one
// on _id, on the empty collection. Errors: 48 where the name is taken.
func (c *Catalog) Create(ctx context.Context, ns schema.Namespace, options bson.Doc) (*Collection, error) {
	return nil, nil
}
