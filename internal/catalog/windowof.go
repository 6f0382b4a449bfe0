package catalog

import (
	"bytes"
	"math"
	"strings"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// noWindow is the last window, which is never wholly due.
	noWindow = math.MaxUint64
	// ownWindows is the first window by last writes of documents with a ttl of
	// their own.
	ownWindows = 1 << 63

	// windowWidthMS is the span of a window. Documents of a window that is due in
	// part go one by one, so it is small beside the monitor's sleep; and each
	// window that a unit writes to costs it one more write, so it is greater where
	// documents bring their own dates, which may lie anywhere.
	windowWidthMS    = 1_000
	ownWindowWidthMS = 10_000
)

// windows is how a collection is clustered. Immutable.
//
// By dates, a window is a span of width milliseconds, and all are of one kind.
// By last writes, a window is a second, and there are two kinds: below
// ownWindows the second of the last write of documents that live as long as the
// rule says, from there on the second at which the others expire.
type windows struct {
	path       string // of the date
	components []string
	width      int64 // milliseconds
	lastWrite  bool
	buckets    bool // they are those of a time-series collection
	// index is the one that the windows were made for, nil where nothing of it
	// matters but the path.
	index *schema.Index
}

// newWindows returns the windows that an index asks for.
func newWindows(ix *schema.Index) *windows {
	w := windowsByDate(ix.Parts[0].Path, windowWidthMS)
	if ix.ExpireAfterSeconds == 0 {
		w.width = ownWindowWidthMS
	}
	if _, w.lastWrite = ix.ByLastWrite(); w.lastWrite || ix.PartialFilter != nil {
		w.index = ix
	}
	return w
}

func windowsByDate(path string, width int64) *windows {
	return &windows{path: path, components: strings.Split(path, "."), width: width}
}

// serve says whether an index judges documents as the windows do.
func (w *windows) serve(ix *schema.Index) bool {
	if !windowable(ix) || ix.Parts[0].Path != w.path {
		return false
	}
	since, lastWrite := ix.ByLastWrite()
	if w.index == nil {
		return !lastWrite && ix.PartialFilter == nil
	}
	of, _ := w.index.ByLastWrite()
	return lastWrite == w.lastWrite && since == of &&
		bytes.Equal(ix.PartialFilter, w.index.PartialFilter) && bytes.Equal(ix.Collation, w.index.Collation)
}

func (w *windows) filter() *match.Filter {
	if w.index == nil {
		return nil
	}
	return w.index.Filter
}

// of is the window that a document belongs to, by its last write, its date, or
// the earliest one of an array. Dates inside of arrays further up do not count,
// nor what an index with a filter does not hold.
func (w *windows) of(doc bson.Doc) uint64 {
	if f := w.filter(); f != nil {
		if in, err := f.Match(doc); err != nil || !in {
			return noWindow
		}
	}
	if w.lastWrite {
		switch at, own, ever := w.index.LastWriteAt(doc); {
		case !ever:
			return noWindow
		case own:
			return ownWindows + uint64(at)
		default:
			return uint64(at)
		}
	}
	v := doc.Lookup(w.components[0])
	for _, name := range w.components[1:] {
		if v.Type != bson.TypeDocument {
			return noWindow
		}
		v = v.Doc().Lookup(name)
	}
	switch v.Type {
	case bson.TypeDate:
		return w.at(v.Date())
	case bson.TypeArray:
		first := uint64(noWindow)
		for e := range v.Doc().Values() {
			if e.Type == bson.TypeDate {
				first = min(first, w.at(e.Date()))
			}
		}
		return first
	}
	return noWindow
}

// stayed says whether a document in a window may be due later than that.
func (w *windows) stayed(doc bson.Doc, in uint64) bool {
	if in == noWindow {
		return false
	}
	of := w.of(doc)
	return of > in || w.lastWrite && of < ownWindows && in >= ownWindows
}

// at is the window of a date, in milliseconds since 1970: in the order of the
// dates, below noWindow.
func (w *windows) at(date int64) uint64 {
	if w.buckets {
		return bucketWindow(date)
	}
	n := date / w.width
	if date%w.width < 0 {
		n--
	}
	return uint64(n) ^ 1<<63
}

// firstDate is the first date of a window; for that behind the last of all
// dates it is not defined.
func (w *windows) firstDate(n uint64) int64 {
	if w.buckets {
		return int64(n<<bucketWindowShift ^ 1<<63)
	}
	return int64(n^1<<63) * w.width
}

// wholeUntil is the last date of the last window that ends at a date or before.
func (w *windows) wholeUntil(date int64) int64 {
	if date > math.MaxInt64-w.width || date < math.MinInt64+2*w.width {
		return date
	}
	return w.firstDate(w.at(date+1)) - 1
}

// lastDue is the last date that is due by the rule at an instant.
func (r *Rule) lastDue(now int64) int64 {
	due := r.DueRanges(now)
	return due[len(due)-1].To.Date()
}

// due is above all windows, and below all others, that are wholly due by a rule
// at an instant. REQUIRES: serve.
func (w *windows) due(r *Rule, now int64) (m LowWater) {
	if !w.lastWrite {
		m.first = w.at(w.wholeUntil(r.lastDue(now)) + 1)
		return m
	}
	if now < 0 {
		return m
	}
	second := now / 1000
	if r.Seconds >= 0 && second >= r.Seconds {
		m.first = uint64(second-r.Seconds) + 1
	}
	m.own = ownWindows + uint64(second) + 1
	return m
}

// LowWater stands above the windows of a collection that are gone: those below
// first, and, of windows by last writes, from ownWindows on those below own. Of
// the windows of buckets what is gone is only what was there at the last drop.
type LowWater struct {
	first uint64
	own   uint64 // 0 where there are none
	drops uint32 // of buckets: how many there were; else 0
}

// below says whether a window is below the mark.
func (m LowWater) below(n uint64) bool { return n < m.first || n >= ownWindows && n < m.own }

// Dead says of the record key in an index entry that its document went with
// its window.
func (m LowWater) Dead(record RecordKey) bool {
	return m != LowWater{} && m.below(record.window()) && (m.drops == 0 || record.epoch() < m.drops)
}

// lift returns a window itself, or the first one of its kind that is not below
// the mark.
func (m LowWater) lift(n uint64) uint64 {
	if n >= ownWindows && m.own > 0 {
		return max(n, m.own)
	}
	return max(n, m.first)
}

// atLeast says whether all that is gone by another mark is gone by this one.
func (m LowWater) atLeast(other LowWater) bool {
	if m.drops != other.drops {
		return m.drops > other.drops
	}
	return m.first >= other.first && m.own >= other.own
}

// upTo is a mark as far as the windows of one kind before n, of a higher one.
func (m LowWater) upTo(n uint64, high LowWater) LowWater {
	if n >= ownWindows && high.own > 0 {
		return LowWater{first: high.first, own: n}
	}
	return LowWater{first: n, own: m.own}
}

// with is the higher of two marks, for each kind of windows.
func (m LowWater) with(other LowWater) LowWater {
	return LowWater{first: max(m.first, other.first), own: max(m.own, other.own)}
}

// upToMost is the lower of two marks, for each kind of windows.
func (m LowWater) upToMost(other LowWater) LowWater {
	return LowWater{first: min(m.first, other.first), own: min(m.own, other.own)}
}

// spans are the windows from one mark up to a higher one, those of each kind
// that there are.
func (m LowWater) spans(to LowWater) (s []windowSpan) {
	if m.first < to.first {
		s = append(s, windowSpan{m.first, to.first})
	}
	if from := max(m.own, ownWindows); from < to.own {
		s = append(s, windowSpan{from, to.own})
	}
	return s
}

// mark is a LowWater that one writes and many read.
type mark struct{ p atomic.Pointer[LowWater] }

func (m *mark) Store(w LowWater) { m.p.Store(&w) }

func (m *mark) Load() LowWater {
	if w := m.p.Load(); w != nil {
		return *w
	}
	return LowWater{}
}

// windowSpan is the windows from one on and below another.
type windowSpan struct{ from, to uint64 }
