// Package measurements keeps the measurements of a time-series collection that are
// in no bucket yet, in one Table for each collection. It takes them from an insert
// to a bucket:
//
//	staged   what a unit inserts is one record, and in memory, by source (stage.go)
//	frozen   when there are enough, all that are staged, until each was flushed (flush.go)
//	open     in records of their source, by time; or at once in a
//	bucket   when there are enough, or when the span of their bucket is over (seal.go)
//
// "Open" also means all that are in no bucket. A source is all measurements with one
// meta value. Buckets themselves are documents of the catalog, which makes the units
// and calls this package through Run and Unit; package timeseries has their form.
//
// # Layout
//
// The keyspace of a table has records of one or more measurements, one document
// behind the other:
//
//	source ‖ time of the last, 8 bytes ‖ number, 8 bytes → open measurements of a source
//	0x02 ‖ number                                        → staged ones, those of one unit
//	0x03                                                 → how far frozen ones were flushed (Progress)
//
// A source begins with 0x00 if there is no meta value; else it is 0x01 ‖ key
// string of the meta value ‖ its hash, which tells apart what is equal and not the
// same, such as 1 and 1.0. Numbers rise.
//
// # Invariants
//
//   - open-locked: the open measurements of a source that are not staged change
//     only under the lock of its key; staged ones are frozen, all at once, while
//     nobody stages, and are flushed under that lock.
//   - open-seen: a reader sees staged measurements when the table has them; snapshot
//     and table are taken together, and the progress of flushing reports whether the
//     snapshot has them elsewhere already.
//
// What a unit changes in a table is a Change, which is made when the unit commits, on
// this member and on any other one (change.go).
//
// Start reading at source.go, then stage.go, flush.go and seal.go.
package measurements
