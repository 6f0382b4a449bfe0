package stage

import (
	"bytes"
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// State is what one unit of work of a stage came to.
type State uint8

// The states of a stage after a unit of work.
const (
	NeedTime State = iota // no result yet, call again
	Advanced              // the row holds the next result
	EOF                   // the end
)

// Row is one result on its way up. Its bytes belong to the stage that filled
// it and stay valid until its next unit of work, or until it is saved (see
// exec's saver); copy them to keep them longer.
type Row struct {
	Record []byte      // key of the record, or nil
	Doc    bson.Doc    // the document, or nil before the fetch
	Key    []byte      // key of the index entry, or nil
	Bits   []byte      // type bits of Key
	Index  *plan.Index // whose Key is
	Sort   []byte      // sort key, if a stage below computed it
	Meta   *Meta       // metadata for {$meta: …}, or nil
	Due    int64       // when the document expires, if the source hides expired documents
	Parked bool        // Key is from before the cursor was last parked
}

// Fill makes it a row with a record and a document, and nothing else. Field by
// field: what was written in words and is copied in larger pieces right away, as
// a literal is, the processor waits for.
func (r *Row) Fill(record []byte, doc bson.Doc) {
	r.Record, r.Doc = record, doc
	r.Key, r.Bits, r.Index, r.Sort, r.Meta = nil, nil, nil, nil, nil
	r.Due, r.Parked = 0, false
}

// FillEntry makes it a row with an entry of an index, and nothing else.
func (r *Row) FillEntry(ix *plan.Index, key, record, bits []byte) {
	r.Record, r.Key, r.Bits, r.Index = record, key, bits, ix
	r.Doc, r.Sort, r.Meta = nil, nil, nil
	r.Due, r.Parked = 0, false
}

// Clone returns a copy of the row with its own bytes.
func (r Row) Clone() Row {
	r.Record, r.Doc = bytes.Clone(r.Record), r.Doc.Clone()
	r.Key, r.Bits, r.Sort = bytes.Clone(r.Key), bytes.Clone(r.Bits), bytes.Clone(r.Sort)
	return r
}

// Stage is a running plan node. Stages are pulled: a unit of work looks at one
// key or one document at most, so that trial runs, interrupts and counters
// have the same grain as the server's.
type Stage interface {
	// Work does one unit of work and fills row when it advances.
	Work(ctx context.Context, row *Row) (State, error)
	// Stats are the stage's counters.
	Stats() *Stats
	// Inputs are the stages below.
	Inputs() []Stage
	// Close releases the resources of the stage, and closes its inputs.
	Close() error
}

// CtxEvery is how many units of work go by between two looks at the context.
const CtxEvery = 128

// Stats are the counters that explain prints for a stage.
type Stats struct {
	Node     plan.Node
	Works    int64
	Advanced int64
	NeedTime int64
	EOF      bool
	Time     time.Duration // only measured for explain

	KeysExamined int64
	DocsExamined int64
	Seeks        int64
	DupsTested   int64
	DupsDropped  int64
}

// Count books the outcome of one unit of work, and returns it.
func (s *Stats) Count(state State) State {
	s.Works++
	switch state {
	case Advanced:
		s.Advanced++
	case NeedTime:
		s.NeedTime++
	case EOF:
		s.EOF = true
	}
	return state
}
