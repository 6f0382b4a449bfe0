package changestream

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Feed is the change stream of a collection over all shards, up to when it was opened.
type Feed interface {
	// Next returns the next event, nil if there is none any more.
	Next(ctx context.Context) (bson.Doc, error)
	// Token is that of the last event, or the time up to which all was told.
	Token() bson.Doc
	Close()
}
