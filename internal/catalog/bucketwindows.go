package catalog

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
)

// The records of a time-series collection are buckets, clustered by when they
// end: the record key is
//
//	key string of the time of the last measurement ‖ epoch ‖ key string of _id
//
// so what is due by the collection's expireAfterSeconds is one range, whatever
// the sources. Its first eight bytes are a window of expiry, 256 ms wide, with
// sums as in windows.go; the third is that of the measurements.
//
// An update leaves a bucket where it is: it may end before the time in its key,
// when its last measurements were deleted, never behind it.
//
// Measurements may come, and be sealed, that are older than the low water. The
// epoch, which is how many drops there were when the bucket was sealed, tells
// them from those that are gone: entries in indexes are dead where their record
// key lies below the low water and has an epoch before that of the last drop.

const (
	epochBytes = 4
	// endBytes is the length of the key string of a date.
	endBytes = 9
	// bucketWindowShift are the bits of a date, in milliseconds, that the first
	// eight bytes of a record key do not have.
	bucketWindowShift = 8
	windowMeasured    = windowStayed // of buckets, their measurements
)

// bucketWindows are those of every time-series collection.
func bucketWindows(o *schema.Timeseries) *windows {
	w := windowsByDate("control.max."+o.TimeField, 1<<bucketWindowShift)
	w.buckets = true
	return w
}

// bucketWindow is the window of buckets that end at a date.
func bucketWindow(date int64) uint64 {
	return RecordKey(keystring.Append(nil, bson.Date(date), false, nil)).window()
}

// BucketEnd is the time in the record key of a bucket, at or behind that of its
// last measurement: milliseconds.
func BucketEnd(record RecordKey) int64 {
	if len(record) < endBytes {
		return 0
	}
	return int64(binary.BigEndian.Uint64(record[1:]) ^ 1<<63)
}

// epoch is the epoch in the record key of a bucket; 0 for one that is damaged.
func (k RecordKey) epoch() uint32 {
	if len(k) < endBytes+epochBytes {
		return 0
	}
	return binary.BigEndian.Uint32(k[endBytes:])
}

// appendBucketKey appends the record key of a new bucket. REQUIRES: a unit is
// inside the collection.
func (c *Collection) appendBucketKey(dst RecordKey, bucket bson.Doc) RecordKey {
	dst = keystring.Append(dst, bucket.Lookup("control").Doc().Lookup("max").Doc().Lookup(c.Settings.Timeseries.TimeField), false, nil)
	dst = binary.BigEndian.AppendUint32(dst, c.live.lowWater.Load().drops)
	return keystring.Append(dst, bucket.Lookup("_id"), false, nil)
}

// measured is how many measurements a bucket says it has.
func measured(bucket bson.Doc) int64 {
	return bson.ClampToInt64(bucket.Lookup("control").Doc().Lookup("count"))
}
