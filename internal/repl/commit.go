package repl

import (
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Committer makes effects take place. One that Commit returned without error is
// visible on this member and as durable as was asked.
type Committer = catalog.Committer

// Local is the Committer of a standalone: the engine decides alone.
type Local struct{}

// Commit is Committer's.
func (Local) Commit(ctx context.Context, e *catalog.Effect, d storage.Durability) error {
	return e.Commit(ctx, d)
}

// Writable is Committer's: a standalone always is.
func (Local) Writable() error { return nil }
