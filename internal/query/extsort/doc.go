// Package extsort sorts rows by order-preserving keys: in memory, keeping only
// the first few where that is all that is asked, and over files where memory
// does not hold them. Sorts of queries and pipelines, and groups that spill,
// use it.
//
// Start reading at sorter.go.
package extsort
