// Package shardsvr is a shard's part in a cluster: it executes the requests of the config
// primary (the _shardsvr commands), receives ranges from other shards, and removes ranges
// that have moved away. What a shard knows about a collection is in its catalog entry
// (schema.Sharding), which replicates it to all members of its set.
// (docs/rfcs/0023-cluster.md)
//
// Each request belongs to an operation of the cluster and is fenced (fence.go): a late request
// does nothing, and a repeated one is executed once.
//
// Each request has a file, or shares one with those that belong to it. How a range of a
// collection is walked is in range.go.
//
// A shard also coordinates transactions that were written to on several shards, and asks the
// coordinators of those that it has prepared (coordinatecommit.go, coordinator.go;
// docs/rfcs/0029-transactions-over-shards.md); an operator may decide for one that is lost
// (decidebyhand.go).
//
// # Invariants
//
//   - one-term: what runs in the background, and a request of an operation, writes only in the
//     term in which it was begun. A member that steps up ends what is left of its earlier terms
//     before it takes writes, and begins anew from what is stored: what it knew may be long
//     over. The config servers send again what was ended.
//
// Start reading at shard.go, then move.go and receive.go.
package shardsvr
