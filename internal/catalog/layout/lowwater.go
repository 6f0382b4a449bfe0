package layout

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// LowWater is the mark below which the sections of a collection have been
// dropped. Sections are of one kind or of two: those from ownWindows on have a
// separate mark. In sections of buckets only what was there at the last drop
// has been removed.
type LowWater struct {
	first uint64 // those below it have been dropped
	own   uint64 // as are those from ownWindows on below this; 0 if there are none
	drops uint32 // of buckets: the number of drops so far; else 0
}

// Below reports whether a section is below the mark.
func (m LowWater) Below(n uint64) bool { return n < m.first || n >= ownWindows && n < m.own }

// Dead says of the record key in an index entry whether its document was
// removed with its section.
func (m LowWater) Dead(k Key) bool {
	return m != LowWater{} && m.Below(k.Section()) && (m.drops == 0 || k.drops() < m.drops)
}

// Lift returns a section itself, or the first one of its kind that is not below
// the mark.
func (m LowWater) Lift(n uint64) uint64 {
	if n >= ownWindows && m.own > 0 {
		return max(n, m.own)
	}
	return max(n, m.first)
}

// AtLeast reports whether everything that is dead by another mark is dead by this
// one.
func (m LowWater) AtLeast(other LowWater) bool {
	if m.drops != other.drops {
		return m.drops > other.drops
	}
	return m.first >= other.first && m.own >= other.own
}

// Sinks reports whether the mark is lower than another one for the first kind of
// sections.
func (m LowWater) Sinks(from LowWater) bool { return m.first < from.first }

// UpTo returns a mark that covers, of a higher mark, the sections of one kind
// before n.
func (m LowWater) UpTo(n uint64, high LowWater) LowWater {
	if n >= ownWindows && high.own > 0 {
		return LowWater{first: high.first, own: n}
	}
	return LowWater{first: n, own: m.own}
}

// Max returns the higher of two marks, for each kind of sections.
func (m LowWater) Max(other LowWater) LowWater {
	return LowWater{first: max(m.first, other.first), own: max(m.own, other.own)}
}

// Min returns the lower of two marks, for each kind of sections.
func (m LowWater) Min(other LowWater) LowWater {
	return LowWater{first: min(m.first, other.first), own: min(m.own, other.own)}
}

// AfterDrop returns the mark with one more drop of buckets than another one
// has.
func (m LowWater) AfterDrop(before LowWater) LowWater {
	m.drops = before.drops + 1
	return m
}

// Span is the range of sections from one up to, but not including, another.
type Span struct{ From, To uint64 }

// records are the records of a span where record keys begin with the section.
func (s Span) records() []KeyRange {
	return []KeyRange{{AppendSection(nil, s.From), AppendSection(nil, s.To)}}
}

// Spans returns the sections from one mark up to a higher one, for each kind
// that there is.
func (m LowWater) Spans(to LowWater) (s []Span) {
	if m.first < to.first {
		s = append(s, Span{m.first, to.first})
	}
	if from := max(m.own, ownWindows); from < to.own {
		s = append(s, Span{from, to.own})
	}
	return s
}

// String returns the mark for tests and logs.
func (m LowWater) String() string {
	s := fmt.Sprintf("%016x", m.first)
	if m.own > 0 {
		s += fmt.Sprintf(" own %016x", m.own)
	}
	if m.drops > 0 {
		s += fmt.Sprintf(" drops %d", m.drops)
	}
	return s
}

// State is the stored state of a collection's sections.
type State struct {
	// Low is the low water.
	Low LowWater
	// Swept is a low water below which no index has dead entries left.
	Swept LowWater
	// ByID is that of Gone.
	ByID string
}

// Gone returns what has been removed by the state.
func (s State) Gone() Gone { return Gone{s.Low, s.ByID} }

// Encode returns the stored form: the marks of the first kind of sections, and those
// of the second and the drops, where there are any; eight bytes each. In a Relay all
// six, and ByID.
func (s State) Encode() []byte {
	b := AppendSection(AppendSection(nil, s.Low.first), s.Swept.first)
	if s.Low.own > 0 || s.Low.drops > 0 || s.ByID != "" {
		b = AppendSection(AppendSection(b, s.Low.own), s.Swept.own)
	}
	if s.Low.drops > 0 || s.ByID != "" {
		b = AppendSection(AppendSection(b, uint64(s.Low.drops)), uint64(s.Swept.drops))
	}
	return append(b, s.ByID...)
}

// DecodeState reads what Encode has written; ok is false for anything else.
func DecodeState(b []byte) (s State, ok bool) {
	if most := 3 * 2 * SectionBytes; len(b) > most {
		b, s.ByID = b[:most], string(b[most:])
	}
	pairs := len(b) / (2 * SectionBytes)
	if len(b)%(2*SectionBytes) != 0 || pairs < 1 {
		return State{}, false
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[i*SectionBytes:]) }
	s.Low.first, s.Swept.first = at(0), at(1)
	if pairs > 1 {
		s.Low.own, s.Swept.own = at(2), at(3)
	}
	if pairs > 2 {
		s.Low.drops, s.Swept.drops = uint32(at(4)), uint32(at(5))
	}
	return s, true
}

// Mark is a LowWater that one writes and many read.
type Mark struct{ p atomic.Pointer[LowWater] }

// Store sets it.
func (m *Mark) Store(w LowWater) { m.p.Store(&w) }

// Load returns what was stored last; zero before.
func (m *Mark) Load() LowWater {
	if w := m.p.Load(); w != nil {
		return *w
	}
	return LowWater{}
}
