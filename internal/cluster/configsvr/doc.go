// Package configsvr is what the config servers of a cluster do besides storing
// documents: the commands that change the cluster, the operations that they begin,
// and the balancer. It runs on the primary of their replica set, for one term at a
// time (term.go).
//
// The metadata are ordinary documents of config.* (store.go), so that shells and
// tools read and write them. Every change of them is made under one lock, from what
// they are then, in one unit, which a deposed primary cannot commit. What asks shards
// for something is an operation (operations.go), whose course package step decides
// and driver.go carries out; which may run at the same time is in claims.go.
//
// Each command is a file of its own, with what its operation writes when it commits.
//
// # Invariants
//
//   - resumed: nothing new begins in a term before the operations that were found
//     have their claims again.
//   - one-change: what a command decides and what it writes is under Server.mu, so
//     that nothing changes in between.
//
// (docs/rfcs/0023-cluster.md)
//
// Start reading at server.go, then operations.go.
package configsvr
