// Package readahead reads what will be asked for before it is asked for. A Batch holds
// entries of an index, and an Order is that of their records, in which their documents
// lie in the store; a Walk steps from one of these records to the next. A Background
// fills batches in a goroutine, where documents are read in the order of the entries.
// An Input does the same for the documents of a pipeline that consumes all before it
// delivers any.
//
// When to read ahead, and how much, is decided by who asks: prefetch.go and aggregate.go
// of package exec.
//
// Start reading at batch.go.
package readahead
