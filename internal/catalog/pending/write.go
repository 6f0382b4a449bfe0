package pending

import (
	"bytes"
	"context"
	"errors"
)

// Evaluation identifies the state of a replicated group on which something is
// evaluated. Only the committer that made it can interpret it; zero if there is
// no log.
type Evaluation struct {
	Term, Epoch uint64
	// Early says that the member has not stepped up in this term yet (Catalog.StepUp).
	Early bool
}

// MaxDocuments is how many documents a Write has at most: a statement that writes
// more is about many documents, none of which it makes hot.
const MaxDocuments = 32

// ErrRefused says that a write was refused, or that its outcome is not known.
var ErrRefused = errors.New("pending: the write was not accepted")

// Write holds the versions of documents that one effect makes. One goroutine builds
// it; then it belongs to a Table.
type Write struct {
	at       Evaluation
	versions []Version
	bytes    int
	done     chan struct{} // closed by Table.Resolve
	err      error         // set before
}

// Version is a document as it is after a write. Immutable.
type Version struct {
	Key    string // what the document is locked by, keyspace first
	Record []byte // its record key
	Doc    []byte // nil once there is a newer version
	Write  *Write

	older, newer *Version
}

// Put adds the new version of a document. It copies all but key. It returns false
// if the write has too many documents already.
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

// At returns the evaluation of the write.
func (w *Write) At() Evaluation { return w.at }

// Resolved reports whether the write was applied or refused.
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
