package catalog

import (
	"encoding/hex"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// UUID identifies a collection for its life, across renames.
type UUID [16]byte

// String is the form with hyphens.
func (u UUID) String() string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Collection is one state of a collection, view or time-series collection:
// immutable, and shared. Counts and the like are live.
type Collection struct {
	Namespace schema.Namespace
	UUID      UUID
	// Options is what `create` was given, normalised: what listCollections shows.
	Options bson.Doc
	// Ident is the keyspace of the records; 0 for a view.
	Ident storage.Ident
	// Capped says that records are in insertion order, within MaxBytes and, where
	// it is not 0, MaxDocs.
	Capped   bool
	MaxBytes int64
	MaxDocs  int64

	indexes []*Index // as created, _id_ first
	live    *live
}

// RecordKey is the key of a document in its collection's keyspace. Opaque.
type RecordKey []byte

// IsView says whether the namespace is a view.
func (c *Collection) IsView() bool { return c.Options.Has("viewOn") }

// ClusteredByID says whether the record key is the key string of _id, so that
// _id_ is the records themselves: a lookup by _id is
// Get(c.Ident, c.AppendIDKey(nil, id)).
func (c *Collection) ClusteredByID() bool { return !c.Capped && c.Ident != 0 }

// AppendIDKey appends the record key of the document with that _id.
// REQUIRES: ClusteredByID.
func (c *Collection) AppendIDKey(dst RecordKey, id bson.Value) RecordKey { return nil }

// Indexes returns the indexes, those being built among them, in the order of
// their creation. Callers must not change the slice.
func (c *Collection) Indexes() []*Index { return c.indexes }

// Index finds an index by name, or returns nil.
func (c *Collection) Index(name string) *Index {
	for _, ix := range c.indexes {
		if ix.Name == name {
			return ix
		}
	}
	return nil
}

// Count is the number of documents committed; DataSize their bytes.
func (c *Collection) Count() int64 { return 0 }

// DataSize is the bytes of the documents committed.
func (c *Collection) DataSize() int64 { return 0 }

// Check returns nil while the descriptor's collection exists under its name,
// else error 175, QueryPlanKilled, as a cursor reports it.
func (c *Collection) Check() error { return nil }

// live is what all descriptors of a collection share.
type live struct{}
