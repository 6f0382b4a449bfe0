package unpack

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/catalog/measurements"
)

// The record of a measurement is one of these bytes, and for one in a bucket
// its number there and the bucket's record key, for an open one the key of its
// source, its time and its number among those.
const (
	inBucket = 'b'
	isOpen   = 'o'
)

func appendBucketRecord(dst []byte, i int, bucket []byte) []byte {
	return append(binary.AppendUvarint(append(dst, inBucket), uint64(i)), bucket...)
}

// appendOpenRecord appends the record of an open measurement, which has a number
// among those of its source.
func appendOpenRecord(dst []byte, src *measurements.Source, at int64, i int) []byte {
	dst = measurements.AppendTime(append(append(dst, isOpen), src.Key...), at)
	return binary.BigEndian.AppendUint64(dst, uint64(i))
}

// Place is what a measurement is in: a bucket, or the open measurements of a source.
type Place []byte

// PlaceOf returns the place of the measurement with a record, in memory of its own.
func PlaceOf(record []byte) Place {
	if record[0] == isOpen {
		return append(Place{isOpen}, measurements.SourceOf(record[1:])...)
	}
	_, n := binary.Uvarint(record[1:])
	return append(Place{inBucket}, record[1+max(n, 0):]...)
}

// IsOpen reports whether the place is the open measurements of a source.
func (p Place) IsOpen() bool { return p[0] == isOpen }

// Key returns the record key of the bucket, or the key of the source.
func (p Place) Key() []byte { return p[1:] }
