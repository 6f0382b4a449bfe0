// Package timeseries packs measurements into buckets and back: one document
// of the buckets collection holds up to a thousand measurements of one source,
// column by column. (Manual: "Time Series Collections", "About Time Series
// Data".) It is pure: bytes in, bytes out.
//
// # Layout
//
// A bucket is {_id, control: {version, min, max, count, closed?}, meta, data:
// {field: column}}. A column (column.go) holds one value for each measurement,
// or a gap: first where the gaps are, then runs of values of one type, each in
// the encoding that suits it (integers.go, doubles.go, objectids.go,
// scalars.go), and the whole compressed by zstd where that makes it smaller.
//
// # Invariants
//
//   - exact: what was packed comes back byte for byte, but for the order of
//     fields in a measurement, which is time, meta, then that of the bucket.
//   - bounded: a column says how many values it has before it has them; no
//     input makes a reader allocate more than MaxMeasurements of them.
//
// Start reading at bucket.go, then column.go; pack.go makes buckets from columns.
package timeseries
