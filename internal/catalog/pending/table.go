package pending

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/memory"
)

// maxBytes bounds the documents of a table, in bytes. What is pending is also in
// the log's queue, which may hold twice as much (repl's maxUncommittedBytes).
const maxBytes = 64 << 20

// Table holds what is pending on a member. Safe for use by many goroutines; the zero
// Table is ready for use, and its documents are part of no budget.
type Table struct {
	bound   int // bytes; 0: maxBytes
	account memory.Account

	mu     sync.Mutex
	hold   memory.Holding
	newest map[string]*Version
	bytes  int
	stats  Stats
	has    atomic.Int64 // len(newest), read without mu
}

// NewTable makes a table whose documents are part of the memory of operations; nil for no
// budget.
func NewTable(operations *memory.Budget) *Table {
	t := &Table{bound: int(operations.Standing(maxBytes))}
	t.account.Open(operations)
	t.hold = t.account.Hold(nil)
	return t
}

// Stats are counts of a table: what it holds, and what has happened.
type Stats struct {
	Documents, Bytes      int   // pending now
	Writes, Read          int64 // writes added, versions that others were evaluated on
	Waited, Refused, Kept int64 // waits for a version; writes refused; writes that did not fit
}

// Stats returns what is pending now and what has happened so far.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Documents, s.Bytes = len(t.newest), t.bytes
	return s
}

// Add makes what a write does pending; false if there is no room, or no memory for
// operations left, and then nothing has happened. Resolve must follow.
// The caller has the locks of all its documents.
func (t *Table) Add(w *Write, at Evaluation) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.bytes + w.bytes; n > cmp.Or(t.bound, maxBytes) || t.hold.Set(n) != nil {
		t.stats.Kept++
		return false
	}
	if t.newest == nil {
		t.newest = map[string]*Version{}
	}
	w.at, w.done = at, make(chan struct{})
	for i := range w.versions {
		v := &w.versions[i]
		if v.older = t.newest[v.Key]; v.older != nil {
			v.older.newer = v
			t.forget(v.older)
		}
		t.newest[v.Key] = v
		t.bytes += len(v.Doc)
	}
	t.stats.Writes++
	t.has.Store(int64(len(t.newest)))
	return true
}

// forget drops the document of a version, which is no longer read (invariant
// newest).
func (t *Table) forget(v *Version) {
	t.bytes -= len(v.Doc)
	v.Doc = nil
}

// Resolve reports the outcome of a write that was added: nil if it was applied, and
// is in the store; an error if it was refused, or the outcome is not known. After
// the first call it does nothing.
func (t *Table) Resolve(w *Write, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.Resolved() {
		return
	}
	for i := range w.versions {
		v := &w.versions[i]
		t.forget(v)
		if v.older != nil {
			v.older.newer = v.newer
		}
		switch {
		case v.newer != nil:
			v.newer.older = v.older
		case v.older != nil:
			t.newest[v.Key] = v.older
		default:
			delete(t.newest, v.Key)
		}
		v.older, v.newer = nil, nil
	}
	t.hold.Shrink(t.bytes)
	if err != nil {
		w.err = ErrRefused
		t.stats.Refused++
	}
	t.has.Store(int64(len(t.newest)))
	close(w.done)
}

// Newest returns the write that made the newest version of a document; nil if the
// store has that. The caller has the document's lock.
func (t *Table) Newest(key []byte) *Write {
	if t.has.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.newest[string(key)]; v != nil {
		return v.Write
	}
	return nil
}

// Read returns the newest version of a document for an evaluation; false where
// there is none that it may read (invariant same-evaluation). The caller has the
// document's lock.
func (t *Table) Read(key []byte, at Evaluation) (Version, bool) {
	if t.has.Load() == 0 {
		return Version{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.newest[string(key)]
	if v == nil || v.Doc == nil || v.Write.at != at {
		return Version{}, false
	}
	t.stats.Read++
	return Version{Key: v.Key, Record: v.Record, Doc: v.Doc, Write: v.Write}, true
}

// Waited counts a wait for a version.
func (t *Table) Waited() {
	t.mu.Lock()
	t.stats.Waited++
	t.mu.Unlock()
}
