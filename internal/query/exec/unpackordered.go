package exec

import (
	"container/heap"
	"context"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// maxHeldBuckets bounds the bytes of buckets, still packed, that a merge by
// time holds because their times overlap.
const maxHeldBuckets = 512 << 20

var errHeldBuckets = mongoerr.New(mongoerr.ExceededMemoryLimit, "the buckets of one time are more than %d bytes", maxHeldBuckets)

// unpackOrdered merges measurements by time. Buckets come from below in the
// order of their beginnings; each is held, packed, until its turn comes, and
// unpacked then. So the first measurements are there before most buckets have
// been looked at, and a limit ends the scan.
type unpackOrdered struct {
	unpack
	queue   timeQueue
	started bool
	reached int64 // where the last bucket from below begins, or ends; see plan.Unpack
	held    int
}

// timeRun is what a merge takes measurements from: a bucket, or the open
// measurements of a source.
type timeRun struct {
	at    int64 // no measurement comes before it, or behind it where the newest come first
	doc   bson.Doc
	key   []byte
	rows  *timeseries.Rows
	i, to int // the next row, and the end
	it    *storage.Iter
}

// timeQueue is a heap of runs.
type timeQueue struct {
	runs []*timeRun
	desc bool
}

func (q *timeQueue) Len() int { return len(q.runs) }
func (q *timeQueue) Less(i, j int) bool {
	if q.desc {
		return q.runs[i].at > q.runs[j].at
	}
	return q.runs[i].at < q.runs[j].at
}
func (q *timeQueue) Swap(i, j int) { q.runs[i], q.runs[j] = q.runs[j], q.runs[i] }
func (q *timeQueue) Push(x any)    { q.runs = append(q.runs, x.(*timeRun)) }
func (q *timeQueue) Pop() any {
	r := q.runs[len(q.runs)-1]
	q.runs = q.runs[:len(q.runs)-1]
	return r
}

func (s *unpackOrdered) Close() error {
	for _, r := range s.queue.runs {
		if r.it != nil {
			r.it.Close()
		}
	}
	s.queue.runs = nil
	return s.unpack.Close()
}

func (s *unpackOrdered) desc() bool { return s.node.Order < 0 }

// start makes runs of the open measurements.
func (s *unpackOrdered) start() {
	s.started, s.queue.desc = true, s.desc()
	s.reached = math.MinInt64
	if s.desc() {
		s.reached = math.MaxInt64
	}
	for _, src := range s.open {
		run := &timeRun{at: max(src.First, s.node.From)}
		if s.desc() {
			run.at = min(src.Last, s.node.To)
		}
		run.key = src.Key
		heap.Push(&s.queue, run)
	}
	s.open = nil
}

// ready says whether the first run's measurements come before all that is
// still to come from below.
func (s *unpackOrdered) ready() bool {
	switch {
	case len(s.queue.runs) == 0:
		return false
	case s.over:
		return true
	case s.node.ByEnd:
		return s.queue.runs[0].at >= s.reached
	case s.desc():
		span := s.node.Options.MaxSpanSeconds * 1000
		return s.reached <= math.MaxInt64-span && s.queue.runs[0].at >= s.reached+span
	}
	return s.queue.runs[0].at <= s.reached
}

func (s *unpackOrdered) Work(ctx context.Context, row *Row) (State, error) {
	if !s.started {
		s.start()
	}
	if !s.ready() {
		if s.over {
			return s.stats.count(EOF), nil
		}
		return s.take(ctx, row)
	}
	run := s.queue.runs[0]
	if run.rows == nil && run.it == nil {
		return s.stats.count(NeedTime), s.begin(run)
	}
	return s.pass(run, row)
}

// take holds the next bucket from below.
func (s *unpackOrdered) take(ctx context.Context, row *Row) (State, error) {
	state, err := s.input.Work(ctx, row)
	if err != nil {
		return EOF, err
	}
	switch state {
	case EOF:
		s.over = true
	case Advanced:
		doc := row.Doc.Clone()
		b, err := timeseries.Open(doc, s.node.Options)
		if err != nil {
			return EOF, corrupt(err)
		}
		if s.reached = b.Start; s.node.ByEnd {
			s.reached = b.Last
		}
		if ruledOut(s.prunes, b, s.node.Options.MetaField) {
			break
		}
		run := &timeRun{at: b.Start, doc: doc, key: append([]byte(nil), row.Record...)}
		if s.desc() {
			run.at = b.Last
		}
		if s.held += len(doc); s.held > maxHeldBuckets {
			return EOF, errHeldBuckets
		}
		heap.Push(&s.queue, run)
	}
	return s.stats.count(NeedTime), nil
}

// begin opens the first run and puts it where its first measurement belongs.
func (s *unpackOrdered) begin(run *timeRun) error {
	if run.doc == nil {
		return s.openRun(run)
	}
	b, err := timeseries.Open(run.doc, s.node.Options)
	if err != nil {
		return corrupt(err)
	}
	if run.rows, run.i, run.to, err = s.unpacked(b); err != nil {
		return err
	}
	if s.desc() {
		run.i, run.to = run.to-1, run.i-1
	}
	s.place(run, run.i != run.to)
	return nil
}

// openRun opens the open measurements of a source.
func (s *unpackOrdered) openRun(run *timeRun) (err error) {
	lower, upper := s.openBounds(catalog.Source{Key: run.key})
	if run.it, err = s.source.reader.NewIter(s.source.coll.Open, lower, upper); err != nil {
		return err
	}
	ok := false
	if s.desc() {
		ok = run.it.Last()
	} else {
		ok = run.it.First()
	}
	if err := run.it.Err(); err != nil {
		return err
	}
	s.place(run, ok)
	return nil
}

// place moves the first run to where its next measurement belongs, or takes it
// away where there is none.
func (s *unpackOrdered) place(run *timeRun, more bool) {
	if !more {
		s.held -= len(run.doc)
		heap.Pop(&s.queue)
		if run.it != nil {
			run.it.Close()
			run.it = nil
		}
		return
	}
	if run.it != nil {
		run.at = catalog.OpenTime(run.it.Key())
	} else {
		run.at = run.rows.Time(run.i)
	}
	heap.Fix(&s.queue, 0)
}

// pass answers with the next measurement of the first run.
func (s *unpackOrdered) pass(run *timeRun, row *Row) (State, error) {
	if run.it == nil {
		i := run.i
		s.record = appendBucketRecord(s.record[:0], i, run.key)
		state, err := s.emit(row, run.rows.Doc(i), s.filter == nil || s.node.Whole)
		run.i += s.node.Order
		s.place(run, run.i != run.to)
		return state, err
	}
	v, err := run.it.Value()
	if err != nil {
		return EOF, err
	}
	s.record = append(append(s.record[:0], isOpen), run.it.Key()...)
	state, err := s.emit(row, bson.Doc(v).Clone(), s.filter == nil)
	if err != nil {
		return EOF, err
	}
	more := false
	if s.desc() {
		more = run.it.Prev()
	} else {
		more = run.it.Next()
	}
	if err := run.it.Err(); err != nil {
		return EOF, err
	}
	s.place(run, more)
	return state, nil
}
