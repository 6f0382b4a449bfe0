package keystring

import "github.com/mayflydb/mayfly/internal/bson"

// AppendMin appends the smallest bytes that a component of t's class can start
// with: every component of the class is at or after them. All numeric types are
// one class (NaN included), string and symbol another. Min and max are meant in
// the order of the bytes, so a descending component's minimum bounds the class's
// greatest values.
func AppendMin(dst []byte, t bson.Type, descending bool) []byte {
	first, last := classTags(t)
	if descending {
		first = ^last
	}
	return append(dst, first)
}

// AppendMax appends the smallest bytes that are greater than every component of
// t's class, in the sense of AppendMin.
func AppendMax(dst []byte, t bson.Type, descending bool) []byte {
	first, last := classTags(t)
	if descending {
		last = ^first
	}
	return append(dst, last+1)
}

// Successor returns, in new memory, the smallest key that is greater than every
// key starting with key: the end of the range of that prefix. It returns nil
// if there is none, because key is empty or all ff.
func Successor(key []byte) []byte {
	for n := len(key); n > 0; n-- {
		if key[n-1] != 0xff {
			next := append([]byte(nil), key[:n]...)
			next[n-1]++
			return next
		}
	}
	return nil
}
