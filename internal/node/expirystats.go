package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// ExpiryReport describes the expiry rules of a collection, which may be nil, as the
// stage $expiryStats prints them. Package expire implements it.
type ExpiryReport func(ctx context.Context, c *catalog.Collection) ([]bson.Doc, error)

// expiryStats lists the expiry rules of the stage's collection: what is due,
// when the rest comes due, what was removed, and what keeps a rule from removing
// documents.
func (w *world) expiryStats(ctx context.Context, arg bson.Doc) (pipeline.Iterator, error) {
	if !arg.IsEmpty() {
		return nil, mongoerr.New(mongoerr.FailedToParse, "The $expiryStats stage specification must be an empty object")
	}
	if w.n.Expiry == nil {
		return &pipeline.List{}, nil
	}
	docs, err := w.n.Expiry(ctx, w.coll)
	if err != nil {
		return nil, err
	}
	for i := range docs {
		if docs[i], err = w.n.noteReport(ctx, w.coll, docs[i]); err != nil {
			return nil, err
		}
	}
	return &pipeline.List{Docs: docs}, nil
}

// noteReport adds to the report of a rule the current note that createIndexes
// gives, which mongosh does not show.
func (n *Node) noteReport(ctx context.Context, c *catalog.Collection, report bson.Doc) (bson.Doc, error) {
	ix := c.Index(report.Lookup("rule").Str())
	if ix == nil {
		return report, nil
	}
	note, err := n.noteTTL(ctx, c, ix.Index)
	if err != nil || note == "" {
		return report, err
	}
	return new(bson.Builder).Fields(report).String("note", note).Finish(), nil
}
