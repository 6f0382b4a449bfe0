// Package configsvr is the work of a cluster's config servers beyond storing
// documents: the commands that change the cluster, the operations that they start,
// and the balancer. It runs on the primary of their replica set, for one term at a
// time (term.go).
//
// The metadata are ordinary documents of config.* (store.go), which shells and tools
// read and write. Every change reads and writes them under one lock, in one unit,
// which a deposed primary cannot commit. A change that involves shards is an operation
// (operations.go): package step decides its steps, driver.go executes them, and
// claims.go says which operations may run concurrently.
//
// Each command has a file of its own, with the writes of its operation's commit.
//
// # Invariants
//
//   - resumed: a term starts no new operation before those that it found have their
//     claims again.
//   - own-term: what was decided by the metadata that a term has read is written in that term or
//     not at all. A process that becomes the primary ends its earlier term before it takes
//     writes.
//   - one-change: a command decides and writes under Server.mu, so that nothing changes
//     in between.
//   - whole-budget: what shards may have of a budget of expiry at a time is the whole of it at
//     most, whichever answers were lost and whoever is primary (shareexpiry.go).
//
// (docs/rfcs/0023-cluster.md)
//
// Start reading at server.go, then operations.go.
package configsvr
