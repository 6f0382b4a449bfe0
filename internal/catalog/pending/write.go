package pending

import (
	"bytes"
	"context"
	"errors"
)

// Evaluation says on which state of a replicated group something is evaluated. It is
// the committer's, who made it; zero where no log decides.
type Evaluation struct {
	Term, Epoch uint64
	// Early says that the member has not stepped up in this term yet (Catalog.StepUp).
	Early bool
}

// MaxDocuments is how many documents a Write has at the most: what writes more is a
// statement about many documents, and none of them is hot for it.
const MaxDocuments = 32

// ErrRefused says that a write came to nothing, or that nobody knows.
var ErrRefused = errors.New("pending: the write was not taken")

// Write is what one effect makes of documents. It is built by one goroutine, and then
// belongs to a Table.
type Write struct {
	at       Evaluation
	versions []Version
	bytes    int
	done     chan struct{} // closed by Table.Resolve
	err      error         // set before
}

// Version is a document as a write leaves it. Nobody changes what it has.
type Version struct {
	Key    string // what the document is locked by, keyspace first
	Record []byte // its record key
	Doc    []byte // nil once a newer version is there
	Write  *Write

	older, newer *Version
}

// Put says that the write makes doc of the document. All is copied but key. It is
// false where the write has too many already.
func (w *Write) Put(key, record, doc []byte) bool {
	for i := range w.versions {
		if v := &w.versions[i]; v.Key == string(key) {
			w.bytes += len(doc) - len(v.Doc)
			v.Record, v.Doc = bytes.Clone(record), bytes.Clone(doc)
			return true
		}
	}
	if len(w.versions) == MaxDocuments {
		return false
	}
	w.bytes += len(doc)
	w.versions = append(w.versions, Version{Key: string(key), Record: bytes.Clone(record), Doc: bytes.Clone(doc), Write: w})
	return true
}

// At is the evaluation of the write.
func (w *Write) At() Evaluation { return w.at }

// Resolved says whether the write was applied, or refused.
func (w *Write) Resolved() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// Wait waits until the write is applied. Errors: ErrRefused, and the cause of ctx's end.
func (w *Write) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
