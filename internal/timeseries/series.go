package timeseries

import (
	"encoding/binary"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Series is an unpacked column: a value, or Missing for a gap, of each measurement.
// Values of one type and one width, as most are, lie one after the other.
type Series struct {
	n      int
	values []bson.Value // nil if all are of one type and width
	t      bson.Type
	width  int
	data   []byte // n values
}

// Len returns how many values and gaps there are.
func (s *Series) Len() int { return s.n }

// At returns value i, which shares the series' bytes.
func (s *Series) At(i int) bson.Value {
	if s.values != nil {
		return s.values[i]
	}
	if s.width == 0 {
		return bson.Value{}
	}
	from, to := i*s.width, (i+1)*s.width
	return bson.Value{Type: s.t, Data: s.data[from:to:to]}
}

// Fixed returns the values as they are encoded in documents, one after the other, where
// there are no gaps and all have one type of a fixed size; nil otherwise.
func (s *Series) Fixed() (bson.Type, []byte) {
	if s.values != nil || s.width == 0 {
		return bson.Missing, nil
	}
	return s.t, s.data
}

// Part sets s to the values [from, to) of another series.
func (s *Series) Part(of *Series, from, to int) {
	*s = Series{n: to - from, t: of.t, width: of.width}
	if of.values != nil {
		s.values = of.values[from:to]
		return
	}
	s.data = of.data[from*of.width : to*of.width]
}

// Gather sets s to n values, which it gets one by one from at.
func (s *Series) Gather(n int, at func(i int) bson.Value) {
	*s = Series{n: n, data: s.data[:0]}
	for i := range n {
		v := at(i)
		if i == 0 {
			s.t, s.width = v.Type, widthOf(v.Type)
		}
		if s.width == 0 || v.Type != s.t || len(v.Data) != s.width {
			s.values, s.width = make([]bson.Value, n), 0
			for k := range n {
				s.values[k] = at(k)
			}
			return
		}
		s.data = append(s.data, v.Data...)
	}
}

// put makes v value i, behind all there are or in place of one of them; what
// lies between is gaps.
func (s *Series) put(i int, v bson.Value) {
	if s.values == nil && i == s.n {
		if i == 0 {
			s.t, s.width = v.Type, widthOf(v.Type)
		}
		if s.width != 0 && v.Type == s.t && len(v.Data) == s.width {
			s.data = append(s.data, v.Data...)
			s.n++
			return
		}
	}
	s.extend(i + 1)
	s.values[i] = v
}

// extend makes s one of values that are not of one width, n of them at least.
func (s *Series) extend(n int) {
	if s.values == nil {
		all := make([]bson.Value, s.n, max(n, 2*s.n))
		for i := range all {
			all[i] = s.At(i)
		}
		s.values, s.width = all, 0
	}
	for s.n < n {
		s.values = append(s.values, bson.Value{})
		s.n++
	}
}

// hasValue reports whether there is one that is no gap.
func (s *Series) hasValue() bool {
	if s.values == nil {
		return s.width != 0 && s.n > 0
	}
	return slices.ContainsFunc(s.values, func(v bson.Value) bool { return !v.IsMissing() })
}

// SetGaps makes s a series of gaps.
func (s *Series) SetGaps(n int) { *s = Series{n: n, data: s.data[:0]} }

// unpackFixed reads n values of a run of the kinds whose values all have one
// width, behind what is in dst already; ok is false for other kinds.
func unpackFixed(kind byte, r *reader, n int, dst []byte) (t bson.Type, data []byte, ok bool) {
	switch kind {
	case kindIntegers:
		t, data = integers(r, n, dst)
	case kindScaled:
		t, data = bson.TypeDouble, scaledDoubles(r, n, dst)
	case kindXOR:
		t, data = bson.TypeDouble, xoredDoubles(r, n, dst)
	case kindObjectID:
		t, data = bson.TypeObjectID, objectIDs(r, n, dst)
	default:
		return bson.Missing, dst, false
	}
	return t, data, true
}

// appendFixed reads such values and appends them one by one.
func appendFixed(kind byte) func(r *reader, n int, dst []bson.Value) []bson.Value {
	return func(r *reader, n int, dst []bson.Value) []bson.Value {
		t, data, _ := unpackFixed(kind, r, n, nil)
		if r.bad {
			return dst
		}
		width := len(data) / n
		for i := 0; i < len(data); i += width {
			dst = append(dst, bson.Value{Type: t, Data: data[i : i+width : i+width]})
		}
		return dst
	}
}

// widths are those of types that have one, and that are met often.
func widthOf(t bson.Type) int {
	switch t {
	case bson.TypeInt32:
		return 4
	case bson.TypeInt64, bson.TypeDate, bson.TypeTimestamp, bson.TypeDouble:
		return 8
	case bson.TypeObjectID:
		return idWidth
	}
	return 0
}

// unpack sets s to the column's values. Those of text and the like share the
// column's bytes; s.data is used again.
func (c *Column) unpack(s *Series) error {
	*s = Series{n: c.n, data: s.data[:0]}
	if len(c.spans) == 1 && c.spans[0] == c.n {
		r := reader{b: c.runs}
		kind, n := r.byte(), r.count(c.n)
		if n == c.n && !r.bad && n > 0 {
			if done, err := s.unpackRun(kind, &r); done || err != nil {
				return err
			}
		}
	}
	var err error
	s.values, err = c.Values(make([]bson.Value, 0, c.n))
	return err
}

// unpackRun sets s to the one run that a column is; done is false if its
// values have no common width.
func (s *Series) unpackRun(kind byte, r *reader) (done bool, err error) {
	if kind == kindSame {
		v := readValue(r)
		w := widthOf(v.Type)
		if r.bad || w == 0 || w != len(v.Data) {
			return false, nil
		}
		s.t, s.width = v.Type, w
		for range s.n {
			s.data = append(s.data, v.Data...)
		}
	} else {
		t, data, ok := unpackFixed(kind, r, s.n, s.data)
		if !ok {
			return false, nil
		}
		if r.bad {
			return false, errColumn
		}
		s.t, s.data = t, data
		s.width = len(data) / s.n
	}
	if r.bad || len(r.b) > 0 {
		return false, errColumn
	}
	return true, nil
}

// date is value i of a series of dates, in milliseconds.
func (s *Series) date(i int) int64 { return int64(binary.LittleEndian.Uint64(s.data[8*i:])) }
