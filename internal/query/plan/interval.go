package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Interval is a range of values of one indexed field, in ascending order.
// Strings in Lo and Hi are plain; the executor encodes them by the index's
// collation.
type Interval struct {
	Lo, Hi       bson.Value
	LoInc, HiInc bool
}

// Intervals is an ordered list of disjoint intervals: what one field of an
// index must lie in.
type Intervals []Interval

// All is every value.
var All = Intervals{{bson.MinKey, bson.MaxKey, true, true}}

// Point is the interval of one value.
func Point(v bson.Value) Interval { return Interval{v, v, true, true} }

// IsPoint reports whether only one value lies in i.
func (i Interval) IsPoint() bool { return i.LoInc && i.HiInc && bson.Equal(i.Lo, i.Hi) }

func (i Interval) empty() bool {
	c := bson.Compare(i.Lo, i.Hi)
	return c > 0 || c == 0 && !(i.LoInc && i.HiInc)
}

// IsAll reports whether the list lets every value pass.
func (l Intervals) IsAll() bool {
	return len(l) == 1 && l[0].Lo.Type == bson.TypeMinKey && l[0].Hi.Type == bson.TypeMaxKey && l[0].LoInc && l[0].HiInc
}

// ArePoints reports whether every interval of the list is one value.
func (l Intervals) ArePoints() bool {
	for _, i := range l {
		if !i.IsPoint() {
			return false
		}
	}
	return len(l) > 0
}

// compareLo orders two intervals by where they begin.
func compareLo(a, b Interval) int {
	if c := bson.Compare(a.Lo, b.Lo); c != 0 {
		return c
	}
	return boolInt(b.LoInc) - boolInt(a.LoInc)
}

// compareHi orders two intervals by where they end.
func compareHi(a, b Interval) int {
	if c := bson.Compare(a.Hi, b.Hi); c != 0 {
		return c
	}
	return boolInt(a.HiInc) - boolInt(b.HiInc)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// normalize sorts the list, drops empty intervals and joins those that touch.
func normalize(l Intervals) Intervals {
	if !slices.IsSortedFunc(l, compareLo) {
		slices.SortFunc(l, compareLo)
	}
	out := l[:0]
	for _, i := range l {
		if i.empty() {
			continue
		}
		if n := len(out); n > 0 && touches(out[n-1], i) {
			if compareHi(i, out[n-1]) > 0 {
				out[n-1].Hi, out[n-1].HiInc = i.Hi, i.HiInc
			}
			continue
		}
		out = append(out, i)
	}
	return out
}

// touches reports whether b, which begins no earlier than a, overlaps a or continues it
// without a gap.
func touches(a, b Interval) bool {
	c := bson.Compare(b.Lo, a.Hi)
	return c < 0 || c == 0 && (a.HiInc || b.LoInc)
}

// intersect returns the values that are in both.
func intersect(a, b Intervals) Intervals {
	var out Intervals
	for i, j := 0, 0; i < len(a) && j < len(b); {
		x := a[i]
		if compareLo(b[j], x) > 0 {
			x.Lo, x.LoInc = b[j].Lo, b[j].LoInc
		}
		if compareHi(b[j], x) < 0 {
			x.Hi, x.HiInc = b[j].Hi, b[j].HiInc
		}
		if !x.empty() {
			out = append(out, x)
		}
		if compareHi(a[i], b[j]) < 0 {
			i++
		} else {
			j++
		}
	}
	return out
}

// complement returns the values that are not in l.
func complement(l Intervals) Intervals {
	var out Intervals
	lo, inc := bson.MinKey, true
	for _, i := range l {
		if x := (Interval{lo, i.Lo, inc, !i.LoInc}); !x.empty() {
			out = append(out, x)
		}
		lo, inc = i.Hi, !i.HiInc
	}
	if x := (Interval{lo, bson.MaxKey, inc, true}); !x.empty() {
		out = append(out, x)
	}
	return out
}

// String prints an interval as explain does: [1, 5), ["a", {}).
func (i Interval) String() string { return i.format(false, false) }

// format prints an interval in the direction of a scan. Strings in the bounds of
// a collated index are collation keys.
func (i Interval) format(descending, collated bool) string {
	lo, hi, loInc, hiInc := i.Lo, i.Hi, i.LoInc, i.HiInc
	if descending {
		lo, hi, loInc, hiInc = hi, lo, hiInc, loInc
	}
	var b strings.Builder
	b.WriteByte("(["[boolInt(loInc)])
	b.WriteString(boundText(lo, collated))
	b.WriteString(", ")
	b.WriteString(boundText(hi, collated))
	b.WriteByte(")]"[boolInt(hiInc)])
	return b.String()
}

func boundText(v bson.Value, collated bool) string {
	if collated && v.Type == bson.TypeString {
		return fmt.Sprintf("CollationKey(0x%x)", v.Str())
	}
	return v.String()
}
