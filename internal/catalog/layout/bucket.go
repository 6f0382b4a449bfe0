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
// so what is due by the collection's expireAfterSeconds is one range over all
// sources. The section is the first eight bytes, 256 ms wide; its third sum is
// that of the measurements.
//
// An update leaves a bucket in place: it may end before the time in its key,
// when its last measurements were deleted, but never after it.
//
// Measurements that are older than the low water may arrive and be sealed. The
// number of drops at the time when the bucket was sealed distinguishes them from
// removed ones: index entries are dead if their record key is below the low
// water and from before the last drop.
type Bucket struct {
	settled
	// TimeField is the collection's timeField.
	TimeField string
}

const (
	dropsBytes = 4
	// endBytes is the length of the key string of a date.
	endBytes = 9
	// bucketShift is the number of low bits of a date, in milliseconds, that a
	// section leaves out.
	bucketShift = 8
)

// FoundByID implements Layout.
func (Bucket) FoundByID() Lookup { return ByScan }

// Append implements Layout.
func (l Bucket) Append(dst Key, p Place) Key {
	dst = keystring.Append(dst, p.Doc.Lookup("control").Doc().Lookup("max").Doc().Lookup(l.TimeField), false, nil)
	dst = binary.BigEndian.AppendUint32(dst, p.Low.drops)
	return append(dst, p.ID...)
}

// Identity implements Layout.
func (Bucket) Identity(k Key) []byte { return k }

// ID implements Layout.
func (Bucket) ID(k Key) ([]byte, bool) { return k[min(len(k), endBytes+dropsBytes):], true }

// InOrder implements Layout.
func (Bucket) InOrder() bool { return false }

// Stored implements Layout.
func (Bucket) Stored() bson.Doc { return nil }

// Sections implements Layout.
func (l Bucket) Sections() Sections { return l }

// BucketEnd returns the time in the record key of a bucket, at or after that of
// its last measurement, in milliseconds; 0 for a damaged key.
func BucketEnd(k Key) int64 {
	if len(k) < endBytes {
		return 0
	}
	return int64(binary.BigEndian.Uint64(k[1:]) ^ 1<<63)
}

// drops returns how many drops there had been when the bucket of a record key
// was sealed; 0 for a damaged key.
func (k Key) drops() uint32 {
	if len(k) < endBytes+dropsBytes {
		return 0
	}
	return binary.BigEndian.Uint32(k[endBytes:])
}

// at returns the section of buckets that end at a date.
func (Bucket) at(date int64) uint64 {
	return Key(keystring.Append(nil, bson.Date(date), false, nil)).Section()
}

// In implements Sections.
func (Bucket) In(k Key) uint64 { return k.Section() }

// Spans implements Sections.
func (Bucket) Spans(from, to LowWater) []Span { return from.Spans(to) }

// Ranges implements Sections.
func (Bucket) Ranges(s Span) []KeyRange { return s.records() }

// Seen implements Sections.
func (Bucket) Seen(dst Key, _ uint64, _ bson.Value, _ []byte) (Key, bool) { return dst, false }

// Of implements Sections: the section of the last measurement.
func (l Bucket) Of(bucket bson.Doc) uint64 {
	v := bucket.Lookup("control").Doc().Lookup("max").Doc().Lookup(l.TimeField)
	return Key(keystring.Append(nil, v, false, nil)).Section()
}

// Third implements Sections: the number of measurements in a bucket.
func (Bucket) Third(bucket bson.Doc, _ uint64) int64 {
	return bson.ClampToInt64(bucket.Lookup("control").Doc().Lookup("count"))
}

// Marks implements Sections.
func (Bucket) Marks() bool { return false }

// Serve implements Sections: the rules of time series have no index.
func (Bucket) Serve(*schema.Index) bool { return false }

// Instants implements Sections.
func (Bucket) Instants() bool { return false }

// WholeUntil implements Sections.
func (l Bucket) WholeUntil(date int64) int64 {
	const width = 1 << bucketShift
	if tooFar(date, width) {
		return date
	}
	return int64(l.at(date+1)<<bucketShift^1<<63) - 1
}

// Due implements Sections: the catalog drops buckets by Before instead.
func (l Bucket) Due(r *schema.Rule, now int64) LowWater { return l.Before(LastDue(r, now)) }

// Before implements Sections.
func (l Bucket) Before(date int64) LowWater { return LowWater{first: l.at(l.WholeUntil(date) + 1)} }
