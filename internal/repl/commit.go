package repl

import (
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
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

// Apart is the Committer of a standalone on the data of a replica set's member. It takes
// no writes: the log of the set would not have them.
type Apart struct{ Set string }

// Commit is Committer's.
func (a Apart) Commit(context.Context, *catalog.Effect, storage.Durability) error {
	return a.Writable()
}

// Writable is Committer's. Errors: 20.
func (a Apart) Writable() error {
	return mongoerr.New(mongoerr.IllegalOperation, "The data of this server are those of a member of the replica set %s, and it was started without --replSet: they can be read, but not changed", a.Set)
}

// Stored is the configuration of the set that a store's data are of, or nil where they
// are of none.
func Stored(e *storage.Engine) (*Config, error) {
	_, b, err := applied(e, 0)
	if err != nil {
		return nil, err
	}
	s, err := decodeGroupState(b)
	return s.config, err
}
