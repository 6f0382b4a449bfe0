package layout

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Bucket lays the buckets of a time-series collection in the order of their
// ends: the record key is
//
//	key string of the time of the last measurement ‖ drops ‖ key string of _id
//
// so what is due by the collection's expireAfterSeconds is one range, whatever
// the sources. The section is the first eight bytes, 256 ms wide; its third sum
// is that of the measurements.
//
// An update leaves a bucket where it is: it may end before the time in its key,
// when its last measurements were deleted, never behind it.
//
// Measurements may come, and be sealed, that are older than the low water. The
// drops, which is how many there were when the bucket was sealed, tell them from
// those that are gone: entries in indexes are dead where their record key lies
// below the low water and is from before the last drop.
type Bucket struct {
	// TimeField is the collection's timeField.
	TimeField string
}

const (
	dropsBytes = 4
	// endBytes is the length of the key string of a date.
	endBytes = 9
	// bucketShift are the bits of a date, in milliseconds, that a section does not
	// have.
	bucketShift = 8
)

// FoundByID is Layout's.
func (Bucket) FoundByID() Lookup { return ByScan }

// Append is Layout's.
func (l Bucket) Append(dst Key, p Place) Key {
	dst = keystring.Append(dst, p.Doc.Lookup("control").Doc().Lookup("max").Doc().Lookup(l.TimeField), false, nil)
	dst = binary.BigEndian.AppendUint32(dst, p.Low.drops)
	return append(dst, p.ID...)
}

// Identity is Layout's.
func (Bucket) Identity(k Key) []byte { return k }

// ID is Layout's.
func (Bucket) ID(k Key) ([]byte, bool) { return k[min(len(k), endBytes+dropsBytes):], true }

// InOrder is Layout's.
func (Bucket) InOrder() bool { return false }

// Stored is Layout's.
func (Bucket) Stored() bson.Doc { return nil }

// Sections is Layout's.
func (l Bucket) Sections() Sections { return l }

// BucketEnd is the time in the record key of a bucket, at or behind that of its
// last measurement: milliseconds. 0 for a key that is damaged.
func BucketEnd(k Key) int64 {
	if len(k) < endBytes {
		return 0
	}
	return int64(binary.BigEndian.Uint64(k[1:]) ^ 1<<63)
}

// drops is how many drops there were when the bucket of a record key was sealed;
// 0 for a key that is damaged.
func (k Key) drops() uint32 {
	if len(k) < endBytes+dropsBytes {
		return 0
	}
	return binary.BigEndian.Uint32(k[endBytes:])
}

// at is the section of buckets that end at a date.
func (Bucket) at(date int64) uint64 {
	return Key(keystring.Append(nil, bson.Date(date), false, nil)).Section()
}

// In is Sections'.
func (Bucket) In(k Key) uint64 { return k.Section() }

// Spans is Sections'.
func (Bucket) Spans(from, to LowWater) []Span { return from.Spans(to) }

// Of is Sections': that of the last measurement.
func (l Bucket) Of(bucket bson.Doc) uint64 {
	v := bucket.Lookup("control").Doc().Lookup("max").Doc().Lookup(l.TimeField)
	return Key(keystring.Append(nil, v, false, nil)).Section()
}

// Third is Sections': how many measurements a bucket says it has.
func (Bucket) Third(bucket bson.Doc, _ uint64) int64 {
	return bson.ClampToInt64(bucket.Lookup("control").Doc().Lookup("count"))
}

// Marks is Sections'.
func (Bucket) Marks() bool { return false }

// Serve is Sections': the rules of time series have no index.
func (Bucket) Serve(*schema.Index) bool { return false }

// Instants is Sections'.
func (Bucket) Instants() bool { return false }

// WholeUntil is Sections'.
func (l Bucket) WholeUntil(date int64) int64 {
	const width = 1 << bucketShift
	if tooFar(date, width) {
		return date
	}
	return int64(l.at(date+1)<<bucketShift^1<<63) - 1
}

// Due is Sections': the catalog drops buckets by their limit, see Before.
func (l Bucket) Due(r *schema.Rule, now int64) LowWater { return l.Before(LastDue(r, now)) }

// Before is Sections'.
func (l Bucket) Before(date int64) LowWater { return LowWater{first: l.at(l.WholeUntil(date) + 1)} }
