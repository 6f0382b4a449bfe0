package exec

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/memory"
)

const (
	// prefetchAfter is how many documents are read one by one before any are read
	// ahead: a client's first batch.
	prefetchAfter = 101
	// prefetchGrowth is how many documents are read ahead for each one that was asked
	// for before.
	prefetchGrowth = 4
	// prefetchSlow takes the place of prefetchGrowth, as a divisor, where a cursor was
	// asked for more than the last time: it is about to have enough.
	prefetchSlow = 8
	// maxPrefetchRows and maxPrefetchBytes bound what one fetch has read ahead. More
	// documents of one look at the collection are nearer to each other.
	maxPrefetchRows  = 1 << 17
	maxPrefetchBytes = 16 << 20
)

// prefetch is what a fetch has read ahead: the next entries of an index, and their
// documents, which were read in the order of the records, since that is how they
// lie in the store. Where the entries are in that order already, the documents
// are still to be read: see fetch.take.
type prefetch struct {
	scan   *indexScan // whose entries they are; nil where nothing is read ahead
	wanted int64      // so many rows are wanted at the most; 0: all
	fields []string   // of a document that are wanted; nil: all
	// drained says that no less is wanted, however long it takes to the first.
	drained bool
	apart   bool  // entries may be gathered in a goroutine
	batch   int64 // see Query; 0 once the cursor was parked

	gathered
	next int          // row
	docs []fetchedDoc // of rows; none where they are still to be read
	// scattered is memory for documents that are read ahead; nil until then.
	scattered *scattered
	// beside gathers where records rise; nil until then.
	beside *beside
	memory memory.Holding

	handed   int64 // rows since the cursor was parked last
	expected int64 // rows between the two times before that; 0 the first time
	before   int64 // rows until it was parked last
	bytes    int64 // of documents that were read in this time
}

// fetchedDoc is the document of a row.
type fetchedDoc struct {
	state fetchedState
	part  uint8 // where it is
	doc   spot
	due   int64 // see hiding
}

// fetchedState tells where the document of a row is.
type fetchedState uint8

const (
	unread fetchedState = iota // in the store
	gone                       // nowhere, or hidden
	read                       // in a part
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

// size is how many rows to read ahead now, 0 for none: nothing is gained where
// records come in rising order anyway.
func (a *prefetch) size() int {
	if a.scan == nil || a.rising || a.scan.uncovered || a.scan.ended {
		return 0
	}
	n := a.handed * prefetchGrowth
	switch {
	case a.handed < a.expected:
		n = a.expected - a.handed
	case a.handed < prefetchAfter && a.expected < prefetchAfter:
		return 0
	case a.drained:
		n = maxPrefetchRows
	case a.expected > prefetchAfter:
		n = max(prefetchAfter, a.handed/prefetchSlow)
	}
	n = min(n, maxPrefetchRows)
	if rows := a.before + a.handed; rows > 0 && a.fields == nil {
		n = min(n, maxPrefetchBytes/(a.bytes/rows+1))
	}
	if a.wanted > 0 {
		n = min(n, a.wanted-a.before-a.handed)
	}
	return int(n)
}

// fill reads entries ahead, if that is worth it, and, unless their records come in
// rising order, the documents. REQUIRES: no rows are left.
func (s *fetch) fill(ctx context.Context) error {
	if err := invariant.Require(!s.ahead.pending(), "exec: no rows are left when more are read ahead"); err != nil {
		return err
	}
	a := &s.ahead
	if s.skips != nil {
		if s.skips.n > 0 {
			return nil
		}
		a.scan, s.skips = s.skips.entries, nil
	}
	var err error
	switch n := 0; {
	case a.beside != nil:
		s.pass()
		err = a.takeBeside(ctx)
	case a.mayBeside():
		s.pass()
		err = a.begin(ctx)
	default:
		if n = a.size(); n == 0 {
			return nil
		}
		if !a.affords(n) {
			return nil
		}
		s.pass()
		err = a.gather(ctx, n)
	}
	if err != nil || len(a.rows) == 0 {
		s.walk.begin()
		return err
	}
	if !a.rising {
		err = s.readAhead(ctx)
		s.walk.begin()
	} else if bytes.Compare(a.record(0), s.last) <= 0 {
		s.walk.begin()
	}
	return err
}

// prefetchEntry is about what an entry takes that is read ahead, in bytes.
const prefetchEntry = 128

// affords takes memory for n rows that are to be read ahead; without it they are
// read one by one.
func (a *prefetch) affords(n int) bool {
	bytes := int64(prefetchEntry)
	if rows := a.before + a.handed; rows > 0 {
		bytes += a.bytes / rows
	}
	return a.memory.Set(int(min(int64(n)*bytes, 2*maxPrefetchBytes))) == nil
}

// gather reads n entries ahead. The scan's counters stay as they are: they
// count what is handed on.
func (a *prefetch) gather(ctx context.Context, n int) error {
	a.clear()
	a.docs = a.docs[:0]
	if a.scan.isPlain() {
		return a.plain(ctx, a.scan, a.scan.source.low, n, maxPrefetchBytes)
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

// pass forgets the rows, all of which were handed on, and counts what the scan
// did behind them.
func (s *fetch) pass() {
	a := &s.ahead
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

// idle does a unit of work in which the scan found nothing, before the next row
// or behind the last; false where there is none.
func (a *prefetch) idle() bool {
	works := &a.end.works
	if a.pending() {
		works = &a.rows[a.next].works
	}
	if *works <= 1 {
		return false
	}
	*works--
	a.scan.Stats().count(NeedTime)
	return true
}

// pending says whether rows are left.
func (a *prefetch) pending() bool { return a.next < len(a.rows) }

// ready says whether rows are left, and nothing else comes before the next one.
func (a *prefetch) ready() bool { return a.next < len(a.rows) && a.rows[a.next].works <= 1 }

// take hands on the next row that was read ahead; its document is nil where it
// is gone.
func (s *fetch) take(row *Row) error {
	a := &s.ahead
	i := a.next
	a.next++
	st := a.scan.Stats()
	if len(a.costs) > 0 {
		st.add(a.costs[i])
	} else {
		st.KeysExamined++
	}
	st.count(Advanced)
	key, record, bits := a.entry(i)
	row.fillEntry(a.scan.index, key, record, bits)
	var err error
	if len(a.docs) == 0 {
		row.Doc, err = s.along(record)
		s.source.judged(row)
		return err
	}
	switch d := &a.docs[i]; d.state {
	case read:
		row.Doc, row.due = a.scattered.parts[d.part].docs.at(d.doc), d.due
	case gone:
	default:
		row.Doc, s.closer, err = s.source.fetch(row.Record)
		s.source.judged(row)
	}
	return err
}

// drop forgets the rows that were not handed on: the scan goes on behind the one
// that was handed on last, be it the last of all, behind which there may be more
// by then; or at the first one, where none was, since a trial of plans ended. The
// cursor is being parked.
func (a *prefetch) drop() error {
	var err error
	if len(a.rows) > 0 {
		for i := a.next; i < len(a.rows); i++ {
			a.scan.forget(a.record(i))
		}
		key, record, _ := a.entry(max(a.next-1, 0))
		if a.beside != nil {
			a.beside.stop()
		}
		err = a.scan.back(key, record, a.next == 0)
	}
	a.free()
	a.memory.Shrink(0)
	*a = prefetch{memory: a.memory, scan: a.scan, wanted: a.wanted, fields: a.fields, drained: a.drained, apart: a.apart, gathered: gathered{rising: a.rising}, expected: a.handed, before: a.before + a.handed, bytes: a.bytes}
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
