package command

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Cursor is a running query, as the executor gives it. It is used by one
// goroutine at a time.
type Cursor interface {
	// Next returns the next document, valid until the following call of Next or
	// Close; nil at the end, or, for a tailable cursor, for nothing at present.
	Next(ctx context.Context) (bson.Doc, error)
	// Close lets go of what the query holds. It is called exactly once.
	Close()
}

// Awaiter is a tailable Cursor that can wait for documents.
type Awaiter interface {
	// Await returns when Next may have something or ctx ends.
	Await(ctx context.Context)
}

// Parked is a Cursor that can let go of resources between two batches.
type Parked interface {
	// Park is called after each batch but the last: the cursor saves its place.
	Park() error
	// Unpark is called before the next batch.
	Unpark(ctx context.Context) error
}

// DefaultBatch is BatchSize where the client gave none: 101 documents in the
// first batch, as many as fit 16 MiB in the following ones.
const DefaultBatch = -1

// CursorSpec describes a cursor to WriteCursorReply.
type CursorSpec struct {
	// NS is the "ns" of the reply and the collection a getMore must name.
	NS     string
	Cursor Cursor
	// BatchSize is the client's batchSize, or DefaultBatch.
	BatchSize   int64
	SingleBatch bool
	Tailable    bool
	AwaitData   bool
	// NoTimeout keeps the cursor however long the client leaves it alone.
	NoTimeout bool
	// Kind is shown by currentOp's idle cursors: "find", "aggregate".
	Kind string
	// Collections are the namespaces ("db.coll") whose drop or rename kills the
	// cursor; NS is one of them always.
	Collections []string
}

// WriteCursorReply writes the reply of a command that opens a cursor,
// {cursor: {firstBatch, id, ns}}, and keeps the cursor for getMore where it is
// not exhausted. It takes the ownership of s.Cursor: it is closed in the end
// whatever happens.
func WriteCursorReply(ctx context.Context, op *Op, s CursorSpec) error { return nil }

// Cursors is the table of open cursors.
type Cursors struct{}
