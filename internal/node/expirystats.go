package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// ExpiryReport tells of the expiry rules of a collection, which may be nil, as
// the stage $expiryStats prints them. Package expire has it.
type ExpiryReport func(ctx context.Context, c *catalog.Collection) ([]bson.Doc, error)

// expiryStats lists the expiry rules of the stage's collection: what is due, and
// when the rest comes due, what was removed, and what keeps a rule from it.
func (w *world) expiryStats(ctx context.Context, arg bson.Doc) (pipeline.Iterator, error) {
	if !arg.IsEmpty() {
		return nil, mongoerr.New(mongoerr.FailedToParse, "The $expiryStats stage specification must be an empty object")
	}
	if w.n.Expiry == nil {
		return &pipeline.List{}, nil
	}
	docs, err := w.n.Expiry(ctx, w.coll)
	return &pipeline.List{Docs: docs}, err
}
