package exec

import (
	"errors"
	"io"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/readahead"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/storage"
)

var errDedupMemory = mongoerr.New(mongoerr.ExceededMemoryLimit, "a query over a multikey index needs more than %d bytes for record keys", maxSeen)

// source is a collection in one snapshot.
type source struct {
	coll       *catalog.Collection
	reader     storage.Reader
	visibility *visibility // nil for nearly all collections
	// rowsWait says that rows of the plan may wait for a later batch.
	rowsWait   bool
	pending    pendingVisibility
	low        catalog.Gone
	env        *expr.Env // of the query; nil if its memory is not accounted
	expiryTime int64     // the instant by which rules hide documents; 0: now
	turns      int       // the collection's Turns when the reader's state was taken
}

// freshSource is a collection in its latest state, until done is called. (Its turns are
// those from before, as for a query.)
func (x *Executor) freshSource(c *catalog.Collection) (s *source, done func()) {
	s = &source{coll: c, turns: c.Turns()}
	snapshot := x.Catalog.Engine().NewSnapshot()
	s.reader = snapshot
	return s, func() { snapshot.Close() }
}

// again is the same state for another reader.
func (s *source) again() *source { return &source{coll: s.coll, reader: s.reader, turns: s.turns} }

func (s *source) records(lower, upper []byte) (*storage.Iter, error) {
	if v := s.coll.Virtual(); v != nil {
		return v.Walk(lower, upper)
	}
	return s.reader.NewIter(s.coll.Ident, lower, upper)
}

// walk moves w to a record, which is after the previous one, and reports whether it
// exists.
func (s *source) walk(w *readahead.Walk, record []byte) (bool, error) {
	if w.Iter == nil {
		it, err := s.records(nil, nil)
		if err != nil {
			return false, err
		}
		w.Iter = it
	}
	return w.To(record)
}

func (s *source) entries(ix *plan.Index, lower, upper []byte) (*storage.Iter, error) {
	var err error
	if s.low, err = s.coll.Gone(s.reader); err != nil {
		return nil, err
	}
	it, err := s.coll.EntryIter(s.reader, ix.Handle.(*catalog.Index), lower, upper)
	if err != nil {
		return nil, err
	}
	if err := s.coll.CheckTurns(s.turns); err != nil {
		return nil, errors.Join(err, it.Close())
	}
	return it, nil
}

// entry makes a row of the iterator's current index entry; memory may get its record
// key. If the index HasDocuments, the row has the document. dead says that the document was
// removed with its window of expiry.
func (s *source) entry(row *stage.Row, memory *[]byte, ix *plan.Index, it *storage.Iter) (dead bool, err error) {
	value, err := it.Value()
	if err != nil {
		return false, err
	}
	handle := ix.Handle.(*catalog.Index)
	key, record, bits, doc := s.split(memory, handle, it, value)
	if record == nil {
		return false, storage.ErrCorruption
	}
	row.FillEntry(ix, key, record, bits)
	if !handle.HasDocuments() {
		return s.low.Dead(record), nil
	}
	if row.Doc = doc; doc != nil {
		return it.Joined() && s.low.Dead(record), nil
	}
	if s.low.Dead(record) {
		return true, nil
	}
	stored, closer, err := s.stored(record)
	if err != nil || stored == nil {
		return true, err
	}
	row.Doc = stored.Clone()
	return false, closer.Close()
}

// split splits the current entry of an index into its parts; memory may get its record key.
func (s *source) split(memory *[]byte, ix *catalog.Index, it *storage.Iter, value []byte) (key, record, bits []byte, doc bson.Doc) {
	key, record, bits, doc = s.coll.SplitEntry((*memory)[:0], ix, it, value)
	appended := ix.ByPrefix != nil || ix.OnPlace != nil
	if ix.IsID() && it.Joined() {
		appended = doc == nil
	}
	if appended {
		*memory = record
	}
	return key, record, bits, doc
}

// fetch reads the document of a record, nil if it was removed, or is hidden.
func (s *source) fetch(record []byte) (bson.Doc, io.Closer, error) {
	doc, closer, err := s.stored(record)
	if doc != nil && s.isExpired(record, doc) {
		return nil, nil, closer.Close()
	}
	return doc, closer, err
}

// hold makes a holding of the operation's memory.
func (s *source) hold() memory.Holding {
	if s.env == nil {
		return memory.Holding{}
	}
	return s.env.Hold()
}

// stored reads the document of a record, hidden or not.
func (s *source) stored(record []byte) (bson.Doc, io.Closer, error) {
	doc, closer, err := s.reader.Get(s.coll.Ident, record)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil, nil
	}
	return doc, closer, err
}

// byID finds the document with an _id, directly if the records are clustered by it,
// else through the index. The record's key is appended to memory.
func (s *source) byID(memory []byte, id bson.Value) ([]byte, bson.Doc, io.Closer, error) {
	record, doc, closer, err := s.coll.FindID(memory, s.reader, id)
	if doc != nil && s.isExpired(record[len(memory):], doc) {
		return record, nil, nil, closer.Close()
	}
	return record, doc, closer, err
}

// matchEnv returns the environment of a filter, with env for the variables of its
// expressions.
func matchEnv(env *expr.Env) *match.Env { return &match.Env{Expr: env} }
