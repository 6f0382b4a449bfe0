package replay

import (
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// errFollower is the error for writers.
var errFollower = mongoerr.New(mongoerr.NotWritablePrimary, "not primary")

// follower is the Committer of a member that accepts no writes.
type follower struct{}

func (follower) Commit(context.Context, *catalog.Effect, storage.Durability) error {
	return errFollower
}

func (follower) Writable() error { return errFollower }
