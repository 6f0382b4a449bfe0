package exec

import (
	"bytes"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// prefetchAfter is how many documents are read one by one before any is
	// prefetched: a client's first batch.
	prefetchAfter = 101
	// prefetchGrowth is how many documents are prefetched for each one that was
	// delivered before.
	prefetchGrowth = 4
	// prefetchSlow replaces prefetchGrowth, as a divisor, once a cursor has delivered
	// more than in its last batch: its reader is about to have enough.
	prefetchSlow = 8
	// maxPrefetchRows and maxPrefetchBytes bound what one fetch has prefetched. The
	// more documents are read in one pass, the nearer to each other they lie.
	maxPrefetchRows  = 1 << 17
	maxPrefetchBytes = 16 << 20
)

// prefetch is what a fetch has read ahead: the next entries of an index, and their
// documents. Those were read in the order of their records, which is how they lie in
// the store. Where the entries have that order already, the documents are not read
// yet: see fetch.take.
type prefetch struct {
	scan     *indexScan // whose entries they are; nil: nothing is prefetched
	rowLimit int64      // the most rows the reader takes; 0: all
	fields   []string   // of a document that are read; nil: all
	// fullyConsumed says that the reader takes all rows, however late the first is.
	fullyConsumed  bool
	parallelizable bool  // a goroutine may read entries
	batch          int64 // see Query; 0 once the cursor was parked

	entryBatch
	next int          // row
	docs []fetchedDoc // of rows; empty where they are not read yet
	// scattered holds prefetched documents; nil until there are any.
	scattered *scattered
	// background reads entries where records rise; nil: no goroutine runs.
	background *backgroundScan
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

// fetchedState tells where the document of a row is.
type fetchedState uint8

const (
	docUnread  fetchedState = iota // in the store
	docMissing                     // gone, or expired and hidden
	docRead                        // in a part
)

// cost is what a scan counted to find an entry behind the one before.
type cost struct{ works, examined, docs, seeks, tested, dropped uint32 }

// since is what was counted in st after before.
func (st *Stats) since(before *Stats) cost {
	return cost{
		uint32(st.Works - before.Works), uint32(st.KeysExamined - before.KeysExamined), uint32(st.DocsExamined - before.DocsExamined),
		uint32(st.Seeks - before.Seeks), uint32(st.DupsTested - before.DupsTested), uint32(st.DupsDropped - before.DupsDropped),
	}
}

// add counts c, but for the work; see prefetch.idle.
func (st *Stats) add(c cost) {
	st.KeysExamined += int64(c.examined)
	st.DocsExamined += int64(c.docs)
	st.Seeks += int64(c.seeks)
	st.DupsTested += int64(c.tested)
	st.DupsDropped += int64(c.dropped)
}

// size is how many rows to prefetch now; 0 for none. Nothing is gained where records
// come in rising order anyway.
func (a *prefetch) size() int {
	if a.scan == nil || a.rising || a.scan.uncovered || a.scan.ended {
		return 0
	}
	n := a.delivered * prefetchGrowth
	switch {
	case a.delivered < a.expected:
		n = a.expected - a.delivered
	case a.delivered < prefetchAfter && a.expected < prefetchAfter:
		return 0
	case a.fullyConsumed:
		n = maxPrefetchRows
	case a.expected > prefetchAfter:
		n = max(prefetchAfter, a.delivered/prefetchSlow)
	}
	n = min(n, maxPrefetchRows)
	if rows := a.before + a.delivered; rows > 0 && a.fields == nil {
		n = min(n, maxPrefetchBytes/(a.bytes/rows+1))
	}
	if a.rowLimit > 0 {
		n = min(n, a.rowLimit-a.before-a.delivered)
	}
	return int(n)
}

// fill prefetches entries where that pays and, unless their records are in rising
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
	if err != nil || len(a.rows) == 0 {
		s.walk.begin()
		return err
	}
	if !a.rising {
		err = s.prefetchDocuments(ctx)
		s.walk.begin()
	} else if bytes.Compare(a.record(0), s.last) <= 0 {
		s.walk.begin()
	}
	return err
}

// prefetchEntry is about what a prefetched entry takes, in bytes.
const prefetchEntry = 128

// affords takes memory to prefetch n rows; without it they are read one by one.
func (a *prefetch) affords(n int) bool {
	bytes := int64(prefetchEntry)
	if rows := a.before + a.delivered; rows > 0 {
		bytes += a.bytes / rows
	}
	return a.memory.Set(int(min(int64(n)*bytes, 2*maxPrefetchBytes))) == nil
}

// readEntries reads the next n entries. The scan's counters stay as they are: they
// count what is delivered.
func (a *prefetch) readEntries(ctx context.Context, n int) error {
	a.clear()
	a.docs = a.docs[:0]
	if a.scan.isPlain() {
		return a.readPlain(ctx, a.scan, a.scan.source.low, n, maxPrefetchBytes)
	}
	st := a.scan.Stats()
	before := *st
	last := before
	var row Row
	for i := 1; len(a.rows) < n && len(a.entries) < maxPrefetchBytes; i++ {
		if i%ctxEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		state, err := a.scan.Work(ctx, &row)
		if err != nil {
			return err
		}
		if state == EOF {
			a.end = st.since(&last)
			break
		}
		if state == Advanced {
			c := st.since(&last)
			a.add(row.Key, row.Record, row.Bits, c.works)
			a.costs = append(a.costs, c)
			last = *st
		}
	}
	*st = before
	return nil
}

// endBatch drops the rows, all of which were delivered, and counts what the scan did
// behind the last one.
func (s *fetch) endBatch() {
	a := &s.prefetch
	if a.end.works > 0 {
		a.scan.Stats().add(a.end)
		a.end = cost{}
	}
	if n := len(a.rows); n > 0 {
		s.last = append(s.last[:0], a.record(n-1)...)
		if len(a.docs) == 0 {
			s.rising = walkAfter
		}
		a.clear()
		a.next = 0
	}
}

// idle does a unit of work in which the scan found nothing, before the next row or
// behind the last; false if there is none left.
func (a *prefetch) idle() bool {
	works := &a.end.works
	if a.pending() {
		works = &a.rows[a.next].works
	}
	if *works <= 1 {
		return false
	}
	*works--
	a.scan.Stats().Count(NeedTime)
	return true
}

// pending says whether rows are left.
func (a *prefetch) pending() bool { return a.next < len(a.rows) }

// ready says whether rows are left, and nothing else comes before the next one.
func (a *prefetch) ready() bool { return a.next < len(a.rows) && a.rows[a.next].works <= 1 }

// take delivers the next prefetched row; its document is nil where it is gone.
func (s *fetch) take(row *Row) error {
	a := &s.prefetch
	i := a.next
	a.next++
	st := a.scan.Stats()
	if len(a.costs) > 0 {
		st.add(a.costs[i])
	} else {
		st.KeysExamined++
	}
	st.Count(Advanced)
	key, record, bits := a.entry(i)
	row.fillEntry(a.scan.index, key, record, bits)
	var err error
	if len(a.docs) == 0 {
		row.Doc, err = s.readNext(record)
		s.source.setDue(row)
		return err
	}
	switch d := &a.docs[i]; d.state {
	case docRead:
		row.Doc, row.due = a.scattered.parts[d.part].docs.at(d.doc), d.due
	case docMissing:
	default:
		row.Doc, s.closer, err = s.source.fetch(row.Record)
		s.source.setDue(row)
	}
	return err
}

// drop forgets the rows that were not delivered, as the cursor is being parked. The
// scan continues behind the row that was delivered last, even if that was the last of
// all: there may be more behind it by then. It continues at the first row where none
// was delivered, because a trial of plans ended.
func (a *prefetch) drop() error {
	var err error
	if len(a.rows) > 0 {
		for i := a.next; i < len(a.rows); i++ {
			a.scan.forget(a.record(i))
		}
		key, record, _ := a.entry(max(a.next-1, 0))
		if a.background != nil {
			a.background.stop()
		}
		err = a.scan.back(key, record, a.next == 0)
	}
	a.endBackground()
	a.memory.Shrink(0)
	*a = prefetch{memory: a.memory, scan: a.scan, rowLimit: a.rowLimit, fields: a.fields, fullyConsumed: a.fullyConsumed, parallelizable: a.parallelizable, entryBatch: entryBatch{rising: a.rising}, expected: a.delivered, before: a.before + a.delivered, bytes: a.bytes}
	return err
}

// chunks are documents in memory, one after the other in large pieces.
type chunks struct {
	all  [][]byte
	used int // pieces that hold documents
	size int // of all documents
}

// spot tells where a document is in chunks.
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
	order recordOrder // of the rows
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
	a.scattered.order.sort(&a.entryBatch)
	order := a.scattered.order.rows
	a.scattered.parts[0].docs.clear()
	a.scattered.parts[1].docs.clear()
	a.docs = slices.Grow(a.docs, len(a.rows))[:len(a.rows)]
	clear(a.docs)
	if _, ok := s.source.reader.(*storage.Snapshot); !ok || len(order) < sharedRows || s.source.visibility != nil {
		s.walk.begin()
		return s.readPart(ctx, &s.walk, order, 0, maxPrefetchBytes)
	}
	half := len(order) / 2
	other := make(chan outcome, 1)
	go func() {
		var w walk
		var out outcome
		defer func() {
			out.panicked = recover()
			other <- out
		}()
		defer func() { _ = w.close() }()
		out.err = s.readPart(ctx, &w, order[half:], 1, maxPrefetchBytes/2)
	}()
	s.walk.begin()
	err := s.readPart(ctx, &s.walk, order[:half], 0, maxPrefetchBytes/2)
	out := <-other
	if out.panicked != nil {
		panic(out.panicked) // on the command's goroutine, where it is handled
	}
	if err == nil {
		err = out.err
	}
	return err
}

// outcome is how a goroutine ended.
type outcome struct {
	err      error
	panicked any
}

// readPart reads documents into a part, up to limit bytes. The rows behind stay
// unread.
func (s *fetch) readPart(ctx context.Context, w *walk, order []fetchOrder, n uint8, limit int) error {
	a, p := &s.prefetch, &s.prefetch.scattered.parts[n]
	for i, k := range order {
		if i%ctxEvery == ctxEvery-1 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := s.probeIndexes(ctx); err != nil {
				return err
			}
		}
		record := a.scattered.order.record(&p.record, &a.entryBatch, k)
		found, err := w.to(s.source, record)
		if err != nil {
			return err
		}
		d := &a.docs[k.row]
		d.state = docMissing
		if !found {
			continue
		}
		doc, err := w.it.Value()
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
