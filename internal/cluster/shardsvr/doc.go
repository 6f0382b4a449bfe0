// Package shardsvr is a shard's part in a cluster: it does what the primary of the config
// servers asks for (the _shardsvr commands), receives ranges from other shards, and removes
// what has gone. What a shard knows of a collection is in its catalog entry
// (schema.Sharding), so all members of its set know the same.
// (docs/rfcs/0023-cluster.md)
//
// Each request is of an operation of the cluster and is fenced (fence.go): what is late does
// nothing, and what is asked twice is done once.
//
// Start reading at shard.go, then move.go and receive.go.
package shardsvr
