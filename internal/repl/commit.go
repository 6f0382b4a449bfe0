package repl

import (
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Committer makes units take effect. A unit that Commit returned without error
// is visible on this member and as durable as was asked.
type Committer interface {
	catalog.Committer
	// Writable returns nil where this member takes writes, else the error that a
	// client gets (10107 on a member that is no primary).
	Writable() error
}

// Local is the Committer of a standalone: the engine decides alone.
type Local struct{}

// Commit is Committer's.
func (Local) Commit(ctx context.Context, u *storage.Unit, d storage.Durability) error {
	return u.Commit(ctx, d)
}

// Writable is Committer's: a standalone always is.
func (Local) Writable() error { return nil }
