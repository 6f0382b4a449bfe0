package layout

import (
	"bytes"
	"math"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// noWindow is the last window, which is never wholly due.
	noWindow = math.MaxUint64
	// ownWindows is the first window by last writes of documents with their own
	// ttl.
	ownWindows = 1 << 63

	// windowWidthMS is the span of a window. Documents of a window that is partly
	// due are removed one by one, so it is small compared to the monitor's sleep;
	// and each window that a unit writes to costs it one more write, so it is
	// larger where documents have their own dates, which may be anywhere.
	windowWidthMS    = 1_000
	ownWindowWidthMS = 10_000
)

// Window lays documents that expire by a date, or by their last write, in
// windows: the record key is the number of a window, eight bytes big-endian, and
// then the key string of _id. So what is due is contiguous, and is removed as one
// range (docs/rfcs/0008-expiry-windows.md).
//
// By dates, a window is a span of width milliseconds, and all are of one kind. By
// last writes, a window is a second, and there are two kinds: below ownWindows
// the second of the last write of documents that live as long as the rule says,
// from there on the second at which the others expire. So a change of
// expireAfterSeconds moves nothing. A document whose instant the windows cannot
// tell is in the last one, which is never dropped as a whole.
//
// A document stays in its window when its instant changes; if it would now
// belong to another window that is not an earlier one of the same kind, it is
// counted (Third) in the one where it stays.
type Window struct {
	settled
	path       string // of the date
	components []string
	width      int64 // milliseconds
	lastWrite  bool
	// index is the one that the windows were made for; nil if only its path
	// matters.
	index *schema.Index
}

// Windowable reports whether an index may have windows.
func Windowable(ix *schema.Index) bool {
	_, lastWrite := ix.ByLastWrite()
	return (ix.Plugin == "" || lastWrite) && len(ix.Parts) == 1
}

// NewWindow returns the windows for an index. REQUIRES: Windowable.
func NewWindow(ix *schema.Index) *Window {
	invariant.Check(Windowable(ix), "layout: windows are those of an index that may have some")
	w := windowByDate(ix.Parts[0].Path, windowWidthMS)
	if ix.ExpireAfterSeconds == 0 {
		w.width = ownWindowWidthMS
	}
	if _, w.lastWrite = ix.ByLastWrite(); w.lastWrite || ix.PartialFilter != nil {
		w.index = ix
	}
	return w
}

func windowByDate(path string, width int64) *Window {
	return &Window{path: path, components: strings.Split(path, "."), width: width}
}

// Stored implements Layout: {path: string, width: long}, in milliseconds, and spec
// where the windows depend on more than a path: the index that they were made for.
func (w *Window) Stored() bson.Doc {
	var b bson.Builder
	b.String("path", w.path).Int64("width", w.width)
	if w.index != nil {
		b.Doc("spec", w.index.Spec)
	}
	return b.Finish()
}

// LoadWindow reads what Stored has written, with a parser of specifications;
// nil for anything else.
func LoadWindow(d bson.Doc, load func(bson.Doc) (*schema.Index, error)) *Window {
	path, width := d.Lookup("path"), d.Lookup("width")
	if path.Type != bson.TypeString || width.Type != bson.TypeInt64 || width.Int64() <= 0 {
		return nil
	}
	w := windowByDate(path.Str(), width.Int64())
	spec := d.Lookup("spec")
	if spec.Type == bson.Missing {
		return w
	}
	if spec.Type != bson.TypeDocument {
		return nil
	}
	ix, err := load(spec.Doc())
	if err != nil || !Windowable(ix) {
		return nil
	}
	w.index = ix
	_, w.lastWrite = ix.ByLastWrite()
	return w
}

// FoundByID implements Layout.
func (*Window) FoundByID() Lookup { return ByEntry }

// Append implements Layout.
func (w *Window) Append(dst Key, p Place) Key {
	return append(AppendSection(dst, p.Low.Lift(w.Of(p.Doc))), p.ID...)
}

// Prefix implements Layout.
func (*Window) Prefix(b []byte) int { return min(len(b), SectionBytes) }

// Identity implements Layout.
func (*Window) Identity(k Key) []byte {
	if len(k) < SectionBytes {
		return k
	}
	return k[SectionBytes:]
}

// ID implements Layout.
func (*Window) ID(k Key) ([]byte, bool) { return k[min(len(k), SectionBytes):], true }

// InOrder implements Layout.
func (*Window) InOrder() bool { return false }

// Sections implements Layout.
func (w *Window) Sections() Sections { return w }

// Serve implements Sections.
func (w *Window) Serve(ix *schema.Index) bool {
	if !Windowable(ix) || ix.Parts[0].Path != w.path {
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

func (w *Window) filter() *match.Filter {
	if w.index == nil {
		return nil
	}
	return w.index.Filter
}

// In implements Sections.
func (*Window) In(k Key) uint64 { return k.Section() }

// Spans implements Sections.
func (*Window) Spans(from, to LowWater) []Span { return from.Spans(to) }

// Ranges implements Sections.
func (*Window) Ranges(s Span) []KeyRange { return s.records() }

// Seen implements Sections.
func (*Window) Seen(dst Key, n uint64, _ bson.Value, id []byte) (Key, bool) {
	return append(AppendSection(dst, n), id...), true
}

// Of implements Sections: by a document's last write, its date, or the earliest
// one of an array. Dates inside arrays further up do not count, nor do
// documents that an index with a filter does not have.
func (w *Window) Of(doc bson.Doc) uint64 {
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

// Third implements Sections: 1 for a document that may be due later than its
// window.
func (w *Window) Third(doc bson.Doc, in uint64) int64 {
	if in == noWindow {
		return 0
	}
	if of := w.Of(doc); of > in || w.lastWrite && of < ownWindows && in >= ownWindows {
		return 1
	}
	return 0
}

// Marks implements Sections.
func (*Window) Marks() bool { return true }

// Instants implements Sections: windows by last writes are a second wide, as
// instants are.
func (w *Window) Instants() bool { return w.lastWrite }

// at returns the window of a date, in milliseconds since 1970: in the order of
// the dates, below noWindow.
func (w *Window) at(date int64) uint64 {
	n := date / w.width
	if date%w.width < 0 {
		n--
	}
	return uint64(n) ^ 1<<63
}

// WholeUntil implements Sections.
func (w *Window) WholeUntil(date int64) int64 {
	if tooFar(date, w.width) {
		return date
	}
	return int64(w.at(date+1)^1<<63)*w.width - 1
}

// tooFar reports whether a date is so early or late that arithmetic with the span
// of a section overflows.
func tooFar(date, width int64) bool {
	return date > math.MaxInt64-width || date < math.MinInt64+2*width
}

// LastDue returns the last date that is due by a rule at an instant.
func LastDue(r *schema.Rule, now int64) int64 {
	due := r.DueRanges(now)
	return due[len(due)-1].To.Date()
}

// Due implements Sections.
func (w *Window) Due(r *schema.Rule, now int64) (m LowWater) {
	if !w.lastWrite {
		return w.Before(LastDue(r, now))
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

// Before implements Sections.
func (w *Window) Before(date int64) LowWater { return LowWater{first: w.at(w.WholeUntil(date) + 1)} }
