package exec

import (
	"bytes"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/query/exec/readahead"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// prefetchAfter is how many documents are read one by one before any is
	// prefetched: a client's first batch.
	prefetchAfter = 101
	// prefetchGrowth is how many documents are prefetched for each one that was
	// returned before.
	prefetchGrowth = 4
	// prefetchSlow replaces prefetchGrowth, as a divisor, once a cursor has returned
	// more than in its last batch: the batch is probably about to end.
	prefetchSlow = 8
	// backgroundAfter is how many documents are read one by one, with their records in
	// rising order, before a background scan may start.
	backgroundAfter = 128
)

// prefetch is what a fetch has read ahead: the next entries of an index, and their
// documents. The documents were read in the order of their records, which is their
// order in the store. If the entries have that order already, the documents are read
// later: see fetch.take.
type prefetch struct {
	scan     *indexScan // whose entries they are; nil: nothing is prefetched
	rowLimit int64      // the most rows the reader takes; 0: all
	fields   []string   // of a document that are read; nil: all
	// fullyConsumed says that the reader takes all rows, and does not need the first
	// one early.
	fullyConsumed  bool
	parallelizable bool  // a goroutine may read entries
	batch          int64 // see Query; 0 once the cursor was parked

	readahead.Batch
	next  int          // row
	docs  []fetchedDoc // of rows; empty if they are not read yet
	costs []cost       // of rows; empty if each cost one key and its works
	tail  cost         // the scan's counters after the last row, except at the tail
	// scattered holds prefetched documents; nil until there are any.
	scattered *scattered
	// background reads entries while records ascend; nil if no goroutine runs.
	background *readahead.Background
	memory     memory.Holding

	delivered int64 // rows since the cursor was parked last
	expected  int64 // rows between the two parks before that; 0 before the second
	before    int64 // rows until it was parked last
	bytes     int64 // of the documents delivered in this time
}

// fetchedDoc is the document of a row.
type fetchedDoc struct {
	state fetchedState
	part  uint8 // where it is
	doc   spot
	due   int64 // see visibility
}

// fetchedState says where the document of a row is.
type fetchedState uint8

const (
	docUnread  fetchedState = iota // in the store
	docMissing                     // removed, or expired and hidden
	docRead                        // in a part
)

// cost is the change of a scan's counters from one entry to the next.
type cost struct{ works, examined, docs, seeks, tested, dropped uint32 }

// since returns the difference of st and before.
func since(st, before *stage.Stats) cost {
	return cost{
		uint32(st.Works - before.Works), uint32(st.KeysExamined - before.KeysExamined), uint32(st.DocsExamined - before.DocsExamined),
		uint32(st.Seeks - before.Seeks), uint32(st.DupsTested - before.DupsTested), uint32(st.DupsDropped - before.DupsDropped),
	}
}

// countIn adds c to st, except the work; see prefetch.idle.
func (c cost) countIn(st *stage.Stats) {
	st.KeysExamined += int64(c.examined)
	st.DocsExamined += int64(c.docs)
	st.Seeks += int64(c.seeks)
	st.DupsTested += int64(c.tested)
	st.DupsDropped += int64(c.dropped)
}

// size returns how many rows to prefetch now, 0 for none. Prefetching gains nothing if
// records are in ascending order anyway.
func (a *prefetch) size() int {
	if a.scan == nil || a.Rising || a.scan.uncovered || a.scan.ended {
		return 0
	}
	n := a.delivered * prefetchGrowth
	switch {
	case a.delivered < a.expected:
		n = a.expected - a.delivered
	case a.delivered < prefetchAfter && a.expected < prefetchAfter:
		return 0
	case a.fullyConsumed:
		n = readahead.MaxRows
	case a.expected > prefetchAfter:
		n = max(prefetchAfter, a.delivered/prefetchSlow)
	}
	n = min(n, readahead.MaxRows)
	if rows := a.before + a.delivered; rows > 0 && a.fields == nil {
		n = min(n, readahead.MaxBytes/(a.bytes/rows+1))
	}
	if a.rowLimit > 0 {
		n = min(n, a.rowLimit-a.before-a.delivered)
	}
	return int(n)
}

// rowsLeft returns how many more rows the reader is expected to need, -1 if unknown.
func (a *prefetch) rowsLeft() int64 {
	n := int64(-1)
	if a.rowLimit > 0 {
		n = a.rowLimit - a.before - a.delivered
	}
	likely := int64(-1)
	switch {
	case a.batch > 0:
		likely = max(0, a.batch-a.delivered)
	case a.delivered < a.expected:
		likely = a.expected - a.delivered
	case a.expected > prefetchAfter:
		likely = a.delivered / prefetchSlow
	}
	if n < 0 || likely >= 0 && likely < n {
		n = likely
	}
	return n
}

// mayScanInBackground reports whether a background scan pays off now.
func (a *prefetch) mayScanInBackground() bool {
	if !a.parallelizable || a.delivered < backgroundAfter || !a.Rising || a.scan == nil || a.scan.ended || !a.scan.isPlain() {
		return false
	}
	if n := a.rowsLeft(); n >= 0 && n < readahead.LeastRows {
		return false
	}
	_, ok := a.scan.source.reader.(*storage.Snapshot)
	return ok
}

// startBackground reads some rows and starts a background scan for the rest.
func (a *prefetch) startBackground(ctx context.Context) (err error) {
	a.clear()
	a.background, err = readahead.StartBackground(ctx, a.scan.plain(), &a.Batch, a.rowsLeft())
	return err
}

// takeBackground receives the next rows of the background scan, none at its end.
func (a *prefetch) takeBackground(ctx context.Context) error {
	more, err := a.background.Take(ctx, &a.Batch)
	if a.next = 0; !more {
		a.endBackground()
	}
	return err
}

// endBackground ends the background scan, and drops the rows.
func (a *prefetch) endBackground() {
	if a.background != nil {
		a.background.Close(&a.Batch)
		a.background, a.next = nil, 0
	}
}

// fill prefetches entries if that pays off and, unless their records are in ascending
// order, their documents. REQUIRES: no rows are left.
func (s *fetch) fill(ctx context.Context) error {
	if err := invariant.Require(!s.prefetch.pending(), "exec: no rows are left when more are read ahead"); err != nil {
		return err
	}
	a := &s.prefetch
	if s.skips != nil {
		if s.skips.n > 0 {
			return nil
		}
		a.scan, s.skips = s.skips.entries, nil
	}
	var err error
	switch n := 0; {
	case a.background != nil:
		s.endBatch()
		err = a.takeBackground(ctx)
	case a.mayScanInBackground():
		s.endBatch()
		err = a.startBackground(ctx)
	default:
		if n = a.size(); n == 0 {
			return nil
		}
		if !a.affords(n) {
			return nil
		}
		s.endBatch()
		err = a.readEntries(ctx, n)
	}
	if err != nil || a.Len() == 0 {
		s.walk.Begin()
		return err
	}
	if !a.Rising {
		err = s.prefetchDocuments(ctx)
		s.walk.Begin()
	} else if bytes.Compare(a.Record(0), s.last) <= 0 {
		s.walk.Begin()
	}
	return err
}

// prefetchEntry is the approximate memory of a prefetched entry, in bytes.
const prefetchEntry = 128

// affords reserves memory to prefetch n rows; without it they are read one by one.
func (a *prefetch) affords(n int) bool {
	bytes := int64(prefetchEntry)
	if rows := a.before + a.delivered; rows > 0 {
		bytes += a.bytes / rows
	}
	return a.memory.Set(int(min(int64(n)*bytes, 2*readahead.MaxBytes))) == nil
}

// readEntries reads the next n entries. It does not change the scan's counters, which
// count only returned rows.
func (a *prefetch) readEntries(ctx context.Context, n int) error {
	a.clear()
	if a.scan.isPlain() {
		return a.scan.plain().Read(ctx, &a.Batch, n, readahead.MaxBytes)
	}
	st := a.scan.Stats()
	before := *st
	last := before
	var row stage.Row
	for i := 1; !a.Has(n, readahead.MaxBytes); i++ {
		if i%stage.CtxEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		state, err := a.scan.Work(ctx, &row)
		if err != nil {
			return err
		}
		if state == stage.EOF {
			a.tail = since(st, &last)
			a.Tail = a.tail.works
			break
		}
		if state == stage.Advanced {
			c := since(st, &last)
			a.Add(row.Key, row.Record, row.Bits, c.works)
			a.costs = append(a.costs, c)
			last = *st
		}
	}
	*st = before
	return nil
}

// endBatch drops the rows, all of which were returned, and adds the scan's counters
// after the last one.
func (s *fetch) endBatch() {
	a := &s.prefetch
	if a.Tail > 0 {
		a.tail.countIn(a.scan.Stats())
		a.Tail, a.tail = 0, cost{}
	}
	if n := a.Len(); n > 0 {
		s.last = append(s.last[:0], a.Record(n-1)...)
		if len(a.docs) == 0 {
			s.rising = walkAfter
		}
		a.clear()
		a.next = 0
	}
}

// idle replays a unit of work in which the scan found nothing, before the next row or
// after the last; false if none is left.
func (a *prefetch) idle() bool {
	works := a.Works(a.next)
	if *works <= 1 {
		return false
	}
	*works--
	a.scan.Stats().Count(stage.NeedTime)
	return true
}

// clear drops the rows.
func (a *prefetch) clear() {
	a.Clear()
	a.docs, a.costs = a.docs[:0], a.costs[:0]
}

// pending reports whether rows are left.
func (a *prefetch) pending() bool { return a.next < a.Len() }

// ready reports whether rows are left, with no idle work before the next one.
func (a *prefetch) ready() bool { return a.next < a.Len() && *a.Works(a.next) <= 1 }

// take returns the next prefetched row; its document is nil if it was removed.
func (s *fetch) take(row *stage.Row) error {
	a := &s.prefetch
	i := a.next
	a.next++
	st := a.scan.Stats()
	if len(a.costs) > 0 {
		a.costs[i].countIn(st)
	} else {
		st.KeysExamined++
	}
	st.Count(stage.Advanced)
	key, record, bits := a.Entry(i)
	row.FillEntry(a.scan.index, key, record, bits)
	var err error
	if len(a.docs) == 0 {
		row.Doc, err = s.readNext(record)
		s.source.setDue(row)
		return err
	}
	switch d := &a.docs[i]; d.state {
	case docRead:
		row.Doc, row.Due = a.scattered.parts[d.part].docs.at(d.doc), d.due
	case docMissing:
	default:
		row.Doc, s.closer, err = s.source.fetch(row.Record)
		s.source.setDue(row)
	}
	return err
}

// drop drops the rows that were not returned, as the cursor is being parked. The scan
// continues after the last returned row, even if that was the last of all: there may be
// new ones by then. If none was returned, because a trial of plans ended, it continues
// at the first row.
func (a *prefetch) drop() error {
	var err error
	if a.Len() > 0 {
		for i := a.next; i < a.Len(); i++ {
			a.scan.forget(a.Record(i))
		}
		key, record, _ := a.Entry(max(a.next-1, 0))
		if a.background != nil {
			a.background.Stop()
		}
		err = a.scan.back(key, record, a.next == 0)
	}
	a.endBackground()
	a.memory.Shrink(0)
	*a = prefetch{memory: a.memory, scan: a.scan, rowLimit: a.rowLimit, fields: a.fields, fullyConsumed: a.fullyConsumed, parallelizable: a.parallelizable, Batch: readahead.Batch{Rising: a.Rising}, expected: a.delivered, before: a.before + a.delivered, bytes: a.bytes}
	return err
}

// chunks holds documents in memory, concatenated in large pieces.
type chunks struct {
	all  [][]byte
	used int // pieces that hold documents
	size int // of all documents
}

// spot locates a document in chunks.
type spot struct{ chunk, at, size uint32 }

const (
	firstChunk = 32 << 10
	maxChunk   = 1 << 20
)

func (c *chunks) clear() { c.used, c.size = 0, 0 }

func (c *chunks) add(doc bson.Doc) spot {
	if c.used == 0 || cap(c.all[c.used-1])-len(c.all[c.used-1]) < len(doc) {
		if c.used < len(c.all) && cap(c.all[c.used]) >= len(doc) {
			c.all[c.used] = c.all[c.used][:0]
		} else {
			n := min(firstChunk<<c.used, maxChunk)
			c.all = append(c.all[:c.used], make([]byte, 0, max(n, len(doc))))
		}
		c.used++
	}
	chunk := &c.all[c.used-1]
	p := spot{uint32(c.used - 1), uint32(len(*chunk)), uint32(len(doc))}
	*chunk = append(*chunk, doc...)
	c.size += len(doc)
	return p
}

func (c *chunks) at(p spot) bson.Doc { return c.all[p.chunk][p.at : p.at+p.size : p.at+p.size] }

// sharedRows is from how many documents on two goroutines read them, half each, in the
// order of the records.
const sharedRows = 8 << 10

// scattered holds documents that were read in another order than that of their rows.
type scattered struct {
	order readahead.Order // of the rows
	parts [2]part
}

// part is the documents that one goroutine has prefetched.
type part struct {
	docs    chunks
	record  []byte // memory for the last record
	narrow  []byte // the last document with only its fields
	builder bson.Builder
}

// prefetchDocuments reads the documents of the rows in the order of their records.
func (s *fetch) prefetchDocuments(ctx context.Context) error {
	a := &s.prefetch
	if a.scattered == nil {
		a.scattered = new(scattered)
	}
	a.scattered.order.Sort(&a.Batch)
	rows := a.scattered.order.Len()
	a.scattered.parts[0].docs.clear()
	a.scattered.parts[1].docs.clear()
	a.docs = slices.Grow(a.docs, a.Len())[:a.Len()]
	clear(a.docs)
	if _, ok := s.source.reader.(*storage.Snapshot); !ok || rows < sharedRows || s.source.visibility != nil {
		s.walk.Begin()
		return s.readPart(ctx, &s.walk, 0, rows, 0, readahead.MaxBytes)
	}
	half := rows / 2
	other := make(chan outcome, 1)
	go func() {
		var w readahead.Walk
		var out outcome
		defer func() {
			out.panicked = recover()
			other <- out
		}()
		defer func() { _ = w.Close() }()
		out.err = s.readPart(ctx, &w, half, rows, 1, readahead.MaxBytes/2)
	}()
	s.walk.Begin()
	err := s.readPart(ctx, &s.walk, 0, half, 0, readahead.MaxBytes/2)
	out := <-other
	if out.panicked != nil {
		panic(out.panicked) // on the command's goroutine, which handles it
	}
	if err == nil {
		err = out.err
	}
	return err
}

// outcome is the result of a goroutine.
type outcome struct {
	err      error
	panicked any
}

// readPart reads the documents of a part of the rows, in the order of the records, into
// part n, up to limit bytes. The rows beyond stay unread.
func (s *fetch) readPart(ctx context.Context, w *readahead.Walk, from, to int, n uint8, limit int) error {
	a, p := &s.prefetch, &s.prefetch.scattered.parts[n]
	for i := range to - from {
		if i%stage.CtxEvery == stage.CtxEvery-1 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := s.probeIndexes(ctx); err != nil {
				return err
			}
		}
		row, record := a.scattered.order.At(&p.record, &a.Batch, from+i)
		found, err := s.source.walk(w, record)
		if err != nil {
			return err
		}
		d := &a.docs[row]
		d.state = docMissing
		if !found {
			continue
		}
		doc, err := w.Iter.Value()
		if err != nil {
			return err
		}
		if s.source.isExpired(record, doc) {
			continue
		}
		if p.docs.size+len(doc) > limit {
			d.state = docUnread
			return nil
		}
		p.keep(d, doc, a.fields)
		d.part = n
		if s.source.checksDocuments() {
			d.due = s.source.visibility.due
		}
	}
	return nil
}

// keep copies the fields of a document that are read; nil: all.
func (p *part) keep(d *fetchedDoc, doc bson.Doc, fields []string) {
	if fields != nil {
		p.narrow = p.builder.Reset(p.narrow[:0]).Only(doc, fields).Finish()
		doc = p.narrow
	}
	d.state, d.doc = docRead, p.docs.add(doc)
}
