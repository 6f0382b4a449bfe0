// Package exec runs plans. A plan becomes a tree of stages (stage.go) that are
// pulled, one unit of work at a time, over a snapshot of the store; candidates
// are tried against each other (trial.go), and the winner feeds a cursor, a
// count, an update, a delete or an explain. Writes evaluate on the snapshot,
// lock each record, look again, and go into catalog units.
//
// What will be asked for is read ahead where that pays: the documents of an
// index's entries in the order of their records (prefetch.go), entries in a
// goroutine beside documents that come in their order (beside.go), and the input of
// a pipeline that takes in all before it delivers any in another (ahead.go).
//
// Start reading at executor.go, then stage.go.
package exec
