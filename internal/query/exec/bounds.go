package exec

import (
	"bytes"
	"sort"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// byteRange is an interval of one field, encoded: what lies between lo and hi
// in the order of the index's keys.
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

// keyRanges says which keys of an index lie within a plan's bounds, and from
// a key outside them, where the next one inside can be.
type keyRanges struct {
	fields []fieldRanges
	lower  []byte // no key inside is smaller
	upper  []byte // every key inside is smaller; nil: no end
	exact  bool   // every key from lower to upper is inside
	none   bool   // no key is inside
}

// startAt leaves out the keys that a scan comes to before place; nil leaves out
// none.
func (k *keyRanges) startAt(place []byte, backward bool) {
	switch {
	case place == nil:
	case !backward && bytes.Compare(place, k.lower) > 0:
		k.lower = place
	case backward && (k.upper == nil || bytes.Compare(place, k.upper) < 0):
		k.upper = place
	}
}

// encodeBounds turns intervals of values into ranges of key bytes.
func encodeBounds(bounds []plan.Intervals, descending []bool, coll bson.Collator) *keyRanges {
	k := &keyRanges{exact: true}
	ranged := false // a field that is no single point has been seen
	for i, l := range bounds {
		f := fieldRanges{all: l.IsAll(), descending: descending[i]}
		if len(l) == 0 {
			k.none = true
			return k
		}
		for _, iv := range l {
			f.ranges = append(f.ranges, encodeInterval(iv, descending[i], coll))
		}
		// Collation and descending order both permute the ranges.
		sort.Slice(f.ranges, func(a, b int) bool { return bytes.Compare(f.ranges[a].lo, f.ranges[b].lo) < 0 })
		single := len(f.ranges) == 1
		if ranged && !f.all || !single {
			k.exact = false
		}
		ranged = ranged || !single || !f.ranges[0].point()
		k.fields = append(k.fields, f)
	}
	k.lower = startKey(nil, k.fields)
	k.upper = endKey(nil, k.fields)
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

// check says whether key lies inside. Where it does not, seek is the bytes
// from which a forward scan (seek >=) or below which a backward scan (seek <)
// may find the next key inside, or nil where there can be none.
func (k *keyRanges) check(key []byte, backward bool) (inside bool, seek []byte) {
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
func (k *keyRanges) after(prefix []byte, i int, comp []byte) (bool, []byte) {
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
func (k *keyRanges) before(prefix []byte, i int, comp []byte) (bool, []byte) {
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
