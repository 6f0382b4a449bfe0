package timeseries

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
)

// A value by itself: type ‖ length ‖ bytes.
func appendValue(dst []byte, v bson.Value) []byte {
	dst = binary.AppendUvarint(append(dst, byte(v.Type)), uint64(len(v.Data)))
	return append(dst, v.Data...)
}

func readValue(r *reader) bson.Value {
	t := bson.Type(r.byte())
	v := bson.Value{Type: t, Data: r.take(r.count(maxColumn))}
	if !r.bad && bson.ValidateValue(v, bson.MaxDepth) != nil {
		r.fail()
	}
	return v
}

func appendRaw(dst []byte, values []bson.Value) []byte {
	for _, v := range values {
		dst = appendValue(dst, v)
	}
	return dst
}

func readRaw(r *reader, n int, dst []bson.Value) []bson.Value {
	for range n {
		dst = append(dst, readValue(r))
	}
	return dst
}

func readSame(r *reader, n int, dst []bson.Value) []bson.Value {
	v := readValue(r)
	for range n {
		dst = append(dst, v)
	}
	return dst
}

// dictionaryShare is how many values there are, at least, for each entry of a
// dictionary.
const dictionaryShare = 3

// Values of variable length and one type: the number of dictionary entries, or
// 0 for none; the entries, and for each value its entry's number; or the
// values themselves.
func appendText(dst []byte, values []bson.Value) []byte {
	dst = append(dst, byte(values[0].Type))
	number := map[string]int{}
	var entries []bson.Value
	for _, v := range values {
		if _, known := number[string(v.Data)]; !known {
			number[string(v.Data)] = len(entries)
			entries = append(entries, v)
		}
	}
	if len(entries)*dictionaryShare > len(values) {
		return appendTexts(append(dst, 0), values)
	}
	dst = appendTexts(binary.AppendUvarint(dst, uint64(len(entries))), entries)
	for _, v := range values {
		dst = binary.AppendUvarint(dst, uint64(number[string(v.Data)]))
	}
	return dst
}

func appendTexts(dst []byte, values []bson.Value) []byte {
	for _, v := range values {
		dst = append(binary.AppendUvarint(dst, uint64(len(v.Data))), v.Data...)
	}
	return dst
}

func readText(r *reader, n int, dst []bson.Value) []bson.Value {
	t := bson.Type(r.byte())
	read := func(n int) []bson.Value {
		vs := make([]bson.Value, 0, n)
		for range n {
			v := bson.Value{Type: t, Data: r.take(r.count(maxColumn))}
			if r.bad || bson.ValidateValue(v, bson.MaxDepth) != nil {
				r.fail()
				return vs
			}
			vs = append(vs, v)
		}
		return vs
	}
	size := r.count(n)
	if size == 0 {
		return append(dst, read(n)...)
	}
	entries := read(size)
	for range n {
		i := r.count(size - 1)
		if i >= len(entries) {
			r.fail()
			return dst
		}
		dst = append(dst, entries[i])
	}
	return dst
}
