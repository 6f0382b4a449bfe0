package replay

import (
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// errFollower is what writers are told.
var errFollower = mongoerr.New(mongoerr.NotWritablePrimary, "not primary")

// follower is the Committer of a member that takes no writes.
type follower struct{}

func (follower) Commit(context.Context, *catalog.Effect, storage.Durability) error {
	return errFollower
}

func (follower) Writable() error { return errFollower }
