// Package step is the course of each operation on the metadata of a cluster, as
// pure state machines: what the config primary asks which shard next, when it
// commits, and how it undoes what it cannot commit. It does no I/O and has no
// clock; package configsvr carries out what it says.
//
// An operation has phases (phase.go), a phase has stages, and the requests of a
// stage go to their shards at once. Step (machine.go) takes the state of an
// operation and one event to the next state and what is to be done. What
// distinguishes the operations is a table of their stages, one file each:
// move.go, shardcollection.go, drop.go and so on.
//
// # Invariants
//
//   - one-write: from one phase to the next there is one write, and nothing of
//     the next phase is asked before it is known to have happened.
//   - forward: in the phases committed and undone nothing is given up: what was
//     not answered is asked again.
//   - fence: in a phase each request of one primary has a number of its own, in
//     the order in which they are decided; asked again it keeps its number.
//   - again: a primary that finds an operation begins its phase from the first
//     stage; so everything that a shard is asked is idempotent.
//
// The exploration (explore_test.go) holds what these are for, on a model of
// shards that follows the page: owned-once, complete, told, ends.
// (docs/rfcs/0023-cluster.md)
//
// Start reading at phase.go.
package step
