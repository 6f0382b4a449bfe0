// Package step has the operations that change the metadata of a cluster, as pure state
// machines: which request the config primary sends to which shard next, when it
// commits, and how it undoes what it cannot commit. It does no I/O and has no clock;
// package configsvr executes its actions, package shardsvr those of a commit.
//
// An operation has phases (phase.go), a phase has stages, and the requests of a stage
// are sent in parallel. Step (machine.go) maps the state of an operation and one event
// to the next state and an action. Each kind of operation is a table of stages in a
// file of its own: move.go, shardcollection.go, drop.go and so on.
//
// # Invariants
//
//   - one-write: one write takes an operation from one phase to the next, and no
//     request of the next phase is sent before that write is known to have happened.
//   - forward: in the phases committed and undone no request is given up: it is sent
//     again until it is answered.
//   - fence: within a phase each request of one primary has a number of its own, in
//     the order in which they are made. A request that is sent again keeps its number.
//   - again: a primary that finds an operation restarts its phase at the first stage,
//     so every request is idempotent.
//
// A commit over several shards is no such operation: the shard that coordinates it runs a
// machine of its own, twophase.go, whose invariants are those of
// docs/rfcs/0029-transactions-over-shards.md.
//
// What these invariants are for is checked by exploring a model of the shards
// (explore_test.go): owned-once, complete, told, ends.
// (docs/rfcs/0023-cluster.md)
//
// Start reading at phase.go.
package step
