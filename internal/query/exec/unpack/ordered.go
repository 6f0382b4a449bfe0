package unpack

import (
	"container/heap"
	"context"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// maxHeldBuckets bounds the bytes of buckets, still packed, that a merge by
// time holds because their times overlap.
const maxHeldBuckets = 512 << 20

var errHeldBuckets = mongoerr.New(mongoerr.ExceededMemoryLimit, "the buckets of one time have more than %d bytes", maxHeldBuckets)

// ordered merges measurements by time. Buckets come from below in the order of their
// first or last times; each is held, packed, until its turn comes, and unpacked then.
// So the first measurements are returned before most buckets have been read, and a
// limit ends the scan.
type ordered struct {
	Unpack
	queue   timeQueue
	started bool
	reached int64 // no later bucket has a measurement before it, or after it in descending order
	held    int
}

// timeRun is an input of the merge: a bucket, or the open measurements of a source.
type timeRun struct {
	at    int64 // no measurement is before it, or after it in descending order
	doc   bson.Doc
	key   []byte
	rows  *timeseries.Rows
	src   *measurements.Source // nil for a bucket
	ms    []timeseries.Measurement
	begun bool
	rest  bool  // of a source: there may be more of it, up to
	upTo  int64 // a time
	i, to int   // the next row or measurement, and the end
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

func (s *ordered) Close() error {
	s.queue.runs = nil
	return s.Unpack.Close()
}

func (s *ordered) desc() bool { return s.node.Order < 0 }

// start makes runs of the open measurements.
func (s *ordered) start() {
	s.started, s.queue.desc = true, s.desc()
	s.reached = math.MinInt64
	if s.desc() {
		s.reached = math.MaxInt64
	}
	for i := range s.open {
		src := &s.open[i]
		run := &timeRun{at: max(src.First, s.node.From), src: src}
		if s.desc() {
			run.at = min(src.Last, s.node.To)
		}
		heap.Push(&s.queue, run)
	}
	s.open = nil
}

// ready reports whether the first run's measurements come before all later buckets from
// below.
func (s *ordered) ready() bool {
	switch {
	case len(s.queue.runs) == 0:
		return false
	case s.over:
		return true
	case s.desc():
		return s.queue.runs[0].at >= s.reached
	}
	return s.queue.runs[0].at <= s.reached
}

// reach records how far the buckets from below have advanced with one. The span is that
// of the longest; the time in the record key of a bucket that has lost its last
// measurements is after its end.
func (s *ordered) reach(b *timeseries.Bucket, record layout.Key) {
	span := s.node.Options.MaxSpanSeconds * 1000
	switch {
	case s.node.ByEnd && s.desc():
		s.reached = layout.BucketEnd(record)
	case s.node.ByEnd:
		s.reached = max(b.Last, math.MinInt64+span) - span
	case s.desc():
		s.reached = min(b.Start, math.MaxInt64-span) + span
	default:
		s.reached = b.Start
	}
}

func (s *ordered) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	if !s.started {
		s.start()
	}
	if !s.ready() {
		if s.over {
			return s.stats.Count(stage.EOF), nil
		}
		return s.take(ctx, row)
	}
	run := s.queue.runs[0]
	if !run.begun {
		return s.stats.Count(stage.NeedTime), s.begin(run)
	}
	return s.pass(run, row)
}

// take holds the next bucket from below.
func (s *ordered) take(ctx context.Context, row *stage.Row) (stage.State, error) {
	b, err := s.bucketBelow(ctx, row)
	if err != nil {
		return stage.EOF, err
	}
	if b == nil {
		return s.stats.Count(stage.NeedTime), nil
	}
	s.reach(b, row.Record)
	if ruledOut(s.prunes, b, s.node.Options.MetaField) {
		return s.stats.Count(stage.NeedTime), nil
	}
	run := &timeRun{at: b.Start, doc: row.Doc.Clone(), key: append([]byte(nil), row.Record...)}
	if s.desc() {
		run.at = b.Last
	}
	if s.held += len(run.doc); s.held > maxHeldBuckets {
		return stage.EOF, errHeldBuckets
	}
	heap.Push(&s.queue, run)
	return s.stats.Count(stage.NeedTime), nil
}

// begin opens the first run and moves it to the position of its first measurement.
func (s *ordered) begin(run *timeRun) (err error) {
	run.begun = true
	if run.src != nil {
		if run.ms, err = s.readOpen(run); err != nil {
			return err
		}
		run.i, run.to = 0, len(run.ms)
	} else {
		b, err := timeseries.Open(run.doc, s.node.Options)
		if err != nil {
			return corrupt(err)
		}
		if run.rows, run.i, run.to, err = s.unpacked(b); err != nil {
			return err
		}
	}
	if s.desc() {
		run.i, run.to = run.to-1, run.i-1
	}
	s.place(run)
	return nil
}

// readOpen reads the open measurements of a source; in descending order it reads the
// newest ones first, as there may be a limit.
func (s *ordered) readOpen(run *timeRun) ([]timeseries.Measurement, error) {
	switch {
	case run.rest:
		run.rest = false
		return s.reader.Read(run.src, s.node.From, run.upTo)
	case s.desc():
		at, ok, err := s.reader.Newest(run.src)
		if err != nil || !ok {
			return nil, err
		}
		if at > s.node.From && at <= s.node.To {
			run.rest, run.upTo = true, at-1
			return s.reader.Read(run.src, at, s.node.To)
		}
	}
	return s.reader.Read(run.src, s.node.From, s.node.To)
}

// place moves the first run to the position of its next measurement, or removes it at
// its end.
func (s *ordered) place(run *timeRun) {
	switch {
	case run.i == run.to && run.rest:
		run.at, run.begun = run.upTo, false
	case run.i == run.to:
		s.held -= len(run.doc)
		heap.Pop(&s.queue)
		return
	case run.src != nil:
		run.at = run.ms[run.i].Time
	default:
		run.at = run.rows.Time(run.i)
	}
	heap.Fix(&s.queue, 0)
}

// pass returns the next measurement of the first run.
func (s *ordered) pass(run *timeRun, row *stage.Row) (state stage.State, err error) {
	if run.src != nil {
		m := &run.ms[run.i]
		s.record = appendOpenRecord(s.record[:0], run.src, m.Time, run.i)
		state, err = s.emit(row, m.Doc, s.filter == nil)
	} else {
		s.record = appendBucketRecord(s.record[:0], run.i, run.key)
		state, err = s.emit(row, run.rows.Doc(run.i), s.filter == nil || s.node.Whole)
	}
	run.i += s.node.Order
	s.place(run)
	return state, err
}
