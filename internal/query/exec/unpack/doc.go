// Package unpack reads the measurements of a time-series collection: those in the buckets
// that a plan finds, and the open ones. It has the stages of a plan.Unpack: in any order
// (unpack.go), by time (ordered.go), or only the newest or oldest of each group (ends.go);
// and whole buckets as columns, for a $group above (columns.go). Package exec plans and
// runs them (timeseries.go), and deletes and updates what they find (timeserieswrite.go).
//
// Start reading at unpack.go.
package unpack
