// Package extsort sorts rows by order-preserving keys: in memory, keeping only
// only the first few if that is all that is needed, and over files if memory
// does not hold them. Sorts of queries and pipelines, and groups that spill,
// use it.
//
// Start reading at sorter.go.
package extsort
