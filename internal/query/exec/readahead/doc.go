// Package readahead reads what will be needed before it is needed. A Batch holds
// entries of an index, and an Order is the order of their records in the store; a Walk
// steps from one of these records to the next. A Background fills batches in a
// goroutine, where documents are read in the order of the entries. An Input does the
// same for the documents of a pipeline that consumes all before it delivers any.
//
// The caller decides when to read ahead, and how much: prefetch.go and aggregate.go of
// package exec.
//
// Start reading at batch.go.
package readahead
