package keyrange

import (
	"bytes"
	"sort"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// byteRange is an encoded interval of one field: from lo to hi in the order of the
// index's keys.
type byteRange struct {
	lo, hi       []byte
	loInc, hiInc bool
}

func (r byteRange) point() bool { return r.loInc && r.hiInc && bytes.Equal(r.lo, r.hi) }

// fieldRanges are the ranges of one field of an index, in key order.
type fieldRanges struct {
	all        bool
	descending bool
	ranges     []byteRange
}

// Ranges says which keys of an index lie within a plan's bounds, and from
// a key outside them, where the next one inside can be.
type Ranges struct {
	fields []fieldRanges
	// Lower is no greater than any key inside, and Upper greater than all; a nil Upper is
	// no end.
	Lower, Upper []byte
	// Exact says that every key from Lower to Upper is inside, and None that no key is.
	Exact, None bool
}

// StartAt leaves out the keys that a scan comes to before place; nil leaves out
// none.
func (k *Ranges) StartAt(place []byte, backward bool) {
	switch {
	case place == nil:
	case !backward && bytes.Compare(place, k.Lower) > 0:
		k.Lower = place
	case backward && (k.Upper == nil || bytes.Compare(place, k.Upper) < 0):
		k.Upper = place
	}
}

// Encode turns intervals of values into ranges of key bytes.
func Encode(bounds []plan.Intervals, descending []bool, coll bson.Collator) *Ranges {
	k := &Ranges{Exact: true}
	ranged := false // a field that is no single point has been seen
	for i, l := range bounds {
		f := fieldRanges{all: l.IsAll(), descending: descending[i]}
		if len(l) == 0 {
			k.None = true
			return k
		}
		for _, iv := range l {
			f.ranges = append(f.ranges, encodeInterval(iv, descending[i], coll))
		}
		// Collation and descending order both permute the ranges.
		sort.Slice(f.ranges, func(a, b int) bool { return bytes.Compare(f.ranges[a].lo, f.ranges[b].lo) < 0 })
		single := len(f.ranges) == 1
		if ranged && !f.all || !single {
			k.Exact = false
		}
		ranged = ranged || !single || !f.ranges[0].point()
		k.fields = append(k.fields, f)
	}
	k.Lower = startKey(nil, k.fields)
	k.Upper = endKey(nil, k.fields)
	return k
}

func encodeInterval(iv plan.Interval, descending bool, coll bson.Collator) byteRange {
	r := byteRange{
		lo: keystring.Append(nil, iv.Lo, descending, coll), loInc: iv.LoInc,
		hi: keystring.Append(nil, iv.Hi, descending, coll), hiInc: iv.HiInc,
	}
	if descending {
		r.lo, r.hi, r.loInc, r.hiInc = r.hi, r.lo, r.hiInc, r.loInc
	}
	return r
}

// startKey appends to prefix the smallest key bytes that lie inside fields.
func startKey(prefix []byte, fields []fieldRanges) []byte {
	key := append([]byte(nil), prefix...)
	for _, f := range fields {
		first := f.ranges[0]
		key = append(key, first.lo...)
		if !first.loInc {
			return keystring.Successor(key)
		}
	}
	return key
}

// endKey appends to prefix the bytes that every key inside fields stays below.
func endKey(prefix []byte, fields []fieldRanges) []byte {
	key := append([]byte(nil), prefix...)
	for _, f := range fields {
		last := f.ranges[len(f.ranges)-1]
		key = append(key, last.hi...)
		if !last.hiInc {
			return key
		}
	}
	return keystring.Successor(key)
}

// Check reports whether key lies inside. Where it does not, seek is the bytes
// from which a forward scan (seek >=) or below which a backward scan (seek <)
// may find the next key inside, or nil if there can be none.
func (k *Ranges) Check(key []byte, backward bool) (inside bool, seek []byte) {
	pos := 0
	for i := range k.fields {
		f := &k.fields[i]
		n := keystring.Skip(key[pos:], f.descending)
		if !f.all {
			comp := key[pos : pos+n]
			if backward {
				if inside, seek := k.before(key[:pos], i, comp); !inside {
					return false, seek
				}
			} else if inside, seek := k.after(key[:pos], i, comp); !inside {
				return false, seek
			}
		}
		pos += n
	}
	return true, nil
}

// after finds the range of field i that comp lies in, or the key to seek
// forward to.
func (k *Ranges) after(prefix []byte, i int, comp []byte) (bool, []byte) {
	rs := k.fields[i].ranges
	at := sort.Search(len(rs), func(j int) bool {
		c := bytes.Compare(comp, rs[j].hi)
		return c < 0 || c == 0 && rs[j].hiInc
	})
	if at == len(rs) {
		if len(prefix) == 0 {
			return false, nil
		}
		return false, keystring.Successor(append([]byte(nil), prefix...))
	}
	r := rs[at]
	if c := bytes.Compare(comp, r.lo); c > 0 || c == 0 && r.loInc {
		return true, nil
	}
	next := append(append([]byte(nil), prefix...), r.lo...)
	if !r.loInc {
		return false, keystring.Successor(next)
	}
	return false, startKey(next, k.fields[i+1:])
}

// before is after for a backward scan.
func (k *Ranges) before(prefix []byte, i int, comp []byte) (bool, []byte) {
	rs := k.fields[i].ranges
	at := sort.Search(len(rs), func(j int) bool {
		c := bytes.Compare(comp, rs[j].lo)
		return c < 0 || c == 0 && !rs[j].loInc
	}) - 1
	if at < 0 {
		if len(prefix) == 0 {
			return false, nil
		}
		return false, append([]byte(nil), prefix...)
	}
	r := rs[at]
	if c := bytes.Compare(comp, r.hi); c < 0 || c == 0 && r.hiInc {
		return true, nil
	}
	next := append(append([]byte(nil), prefix...), r.hi...)
	if !r.hiInc {
		return false, next
	}
	return false, endKey(next, k.fields[i+1:])
}

// Clamp narrows the ranges by the min (inclusive) and max (exclusive) keys of
// the query, which are given in the order of the index.
func (k *Ranges) Clamp(n *plan.IndexScan, descending []bool) {
	if k.None {
		return
	}
	if n.Min != nil {
		if lo := encodeKey(n.Min, descending); bytes.Compare(lo, k.Lower) > 0 {
			k.Lower = lo
		}
	}
	if n.Max != nil {
		if hi := encodeKey(n.Max, descending); k.Upper == nil || bytes.Compare(hi, k.Upper) < 0 {
			k.Upper = hi
		}
	}
	k.None = k.Upper != nil && bytes.Compare(k.Lower, k.Upper) >= 0
}

func encodeKey(values []bson.Value, descending []bool) []byte {
	var key []byte
	for i, v := range values {
		key = keystring.Append(key, v, descending[i], nil)
	}
	return key
}
