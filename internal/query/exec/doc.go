// Package exec runs plans. A plan becomes a tree of stages (package stage) that are
// pulled, one unit of work at a time, over a snapshot of the store; candidates
// are tried against each other (trial.go), and the winner feeds a cursor, a
// count, an update, a delete or an explain. Writes evaluate on the snapshot,
// lock each record, check it again, and go into catalog units.
//
// What will be asked for is read ahead where that pays (package readahead): the
// documents of an index's entries in the order of their records, and entries by a
// background scan where documents come in their order (prefetch.go), and the input of a
// pipeline that consumes all before it delivers any (aggregate.go). Package plancache
// remembers which plans won, package keyrange says which keys lie within bounds.
//
// The stages that read measurements are in package unpack (timeseries.go).
//
// Start reading at package stage, then executor.go.
package exec
