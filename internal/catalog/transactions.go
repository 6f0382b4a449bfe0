package catalog

import (
	"bytes"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/storage"
)

// transactions is config.transactions: a document for each session of which there are
// records, {_id: {id, uid}, txnNum, lastWriteOpTime: {ts, t}, lastWriteDate}, as MongoDB
// has it. Its keys are those of sessions (retryable.AppendSession).
type transactions struct{ c *Catalog }

// Walk implements Virtual.
func (v transactions) Walk(lower, upper []byte) (*storage.Iter, error) {
	w := &sessionWalk{snapshot: v.c.engine.NewSnapshot()}
	var err error
	if w.it, err = w.snapshot.NewIter(storage.IdentSessions, recordBound(lower), recordBound(upper)); err != nil {
		return nil, errors.Join(err, w.snapshot.Close())
	}
	return storage.IterOf(w), nil
}

// recordBound returns where, among the records, those of sessions begin whose keys are
// not below a key.
func recordBound(key []byte) []byte {
	if len(key) <= retryable.SessionLen {
		return key
	}
	return append(bytes.Clone(key[:retryable.SessionLen]), 0xff, 0xff, 0xff, 0xff, 0xff)
}

// KeyField implements Virtual.
func (transactions) KeyField() string { return "" }

// Gone implements Virtual.
func (transactions) Gone([]byte) (bool, error) { return false, nil }

// Size is Virtual's: it steps from session to session, and makes one document, since all
// have the same size.
func (v transactions) Size() (sessions, size, most int64) {
	it, err := v.Walk(nil, nil)
	if err != nil {
		return 0, 0, 0
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if sessions++; sessions > 1 {
			continue
		}
		d, err := it.Value()
		if err != nil {
			break
		}
		size = int64(len(d))
	}
	return sessions, sessions * size, 0
}

// Arrivals implements Virtual: there are never any.
func (transactions) Arrivals() <-chan struct{} { return nil }

// sessionWalk iterates over sessions by their records: the last record of each
// is of its newest operation.
type sessionWalk struct {
	snapshot *storage.Snapshot
	it       *storage.Iter
	key      []byte
	valid    bool
	b        bson.Builder
	err      error
}

// land makes the session of the iterator's record the current one, and moves to its
// last record.
func (w *sessionWalk) land(there bool) bool {
	w.valid = false
	if !there {
		return false
	}
	s, _, err := retryable.ParseKey(w.it.Key())
	if err != nil {
		w.err = err
		return false
	}
	w.key = retryable.AppendSession(w.key[:0], s)
	w.valid = w.it.SeekLT(recordBound(append(w.key, 0)))
	return w.valid
}

// First implements storage.Walk.
func (w *sessionWalk) First() bool { return w.land(w.it.First()) }

// Last implements storage.Walk.
func (w *sessionWalk) Last() bool { return w.land(w.it.Last()) }

// Next implements storage.Walk.
func (w *sessionWalk) Next() bool { return w.valid && w.land(w.it.Next()) }

// Prev implements storage.Walk.
func (w *sessionWalk) Prev() bool { return w.valid && w.land(w.it.SeekLT(w.key)) }

// SeekGE implements storage.Walk.
func (w *sessionWalk) SeekGE(key []byte) bool { return w.land(w.it.SeekGE(recordBound(key))) }

// SeekLT implements storage.Walk.
func (w *sessionWalk) SeekLT(key []byte) bool { return w.land(w.it.SeekLT(recordBound(key))) }

// Valid implements storage.Walk.
func (w *sessionWalk) Valid() bool { return w.valid }

// Key implements storage.Walk.
func (w *sessionWalk) Key() []byte { return w.key }

// Value implements storage.Walk.
func (w *sessionWalk) Value() ([]byte, error) {
	v, err := w.it.Value()
	if err != nil {
		return nil, err
	}
	s, _, err := retryable.ParseKey(w.it.Key())
	if err != nil {
		return nil, err
	}
	r, err := retryable.Parse(v)
	if err != nil {
		return nil, err
	}
	w.b.Reset(nil).Doc("_id", s.Document()).Int64("txnNum", r.Txn)
	w.b.OpenDoc("lastWriteOpTime").Timestamp("ts", r.Time).Int64("t", int64(r.Term)).Close()
	w.b.Date("lastWriteDate", r.Date)
	if state, ok := sessionStates[r.Transaction()]; ok {
		w.b.String("state", state)
	}
	return w.b.Finish(), nil
}

// sessionStates are the states of sessions' newest transactions as MongoDB calls them.
var sessionStates = map[retryable.Kind]string{retryable.Committed: "committed", retryable.Prepared: "prepared", retryable.Aborted: "aborted"}

// Err implements storage.Walk.
func (w *sessionWalk) Err() error {
	if w.err != nil {
		return w.err
	}
	return w.it.Err()
}

// Close implements storage.Walk.
func (w *sessionWalk) Close() error { return errors.Join(w.it.Close(), w.snapshot.Close()) }
