package repl

import (
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Committer commits effects. Once Commit has returned without error, the effect is
// visible on this member and as durable as was asked for.
type Committer = catalog.Committer

// Local is the Committer of a standalone: it commits to the engine alone.
type Local struct{}

// Commit implements Committer.
func (Local) Commit(ctx context.Context, e *catalog.Effect, d storage.Durability) error {
	return e.Commit(ctx, d)
}

// Writable implements Committer: a standalone always is.
func (Local) Writable() error { return nil }

// Detached is the Committer of a server that was started as a standalone on the data of a
// replica set's member. It takes no writes: they would be missing in the log of the
// set.
type Detached struct{ Set string }

// Commit implements Committer.
func (d Detached) Commit(context.Context, *catalog.Effect, storage.Durability) error {
	return d.Writable()
}

// Writable implements Committer. Errors: 20.
func (d Detached) Writable() error {
	return mongoerr.New(mongoerr.IllegalOperation, "The data of this server belong to a member of the replica set %s, but it was started without --replSet: they can be read, but not changed", d.Set)
}

// Stored returns the configuration of the set that a store's data belongs to, or nil
// if it belongs to none.
func Stored(e *storage.Engine) (*Config, error) {
	_, b, err := applied(e, 0)
	if err != nil {
		return nil, err
	}
	s, err := decodeGroupState(b)
	return s.config, err
}
