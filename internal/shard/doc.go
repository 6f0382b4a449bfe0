// Package shard has the rules of sharding as pure functions: which shard a document
// belongs to, which shards a statement targets, how a collection's key space is split
// into chunks, and which chunks the balancer moves where. It does no I/O, stores nothing,
// and has no clock. The router targets statements with it, the config servers compute
// their writes with it, and a shard decides what it owns.
//
// Start reading at chunkmap.go. key.go says where in the key space a document is,
// target.go which shards a filter targets, initial.go how a new collection is split,
// plan.go what splits, merges and moves do to the chunks, balance.go what the balancer
// does next. (MongoDB's manual, "Hashed Sharding", "Ranges", "Zones", "Sharded Cluster
// Balancer".)
//
// Invariants:
//
//	cover     the chunks of a map cover the key space: the first begins at the
//	          lowest key, each begins where the one before ends, the last ends at
//	          the highest key; none is empty
//	shared    a map never changes; one made from another shares all blocks of
//	          chunks that did not change
//	version   each change of chunks gets versions above all that the collection
//	          has; a donor that keeps other chunks gets a higher version on one of
//	          them, so that its shard version rises, too
//	superset  the targeted shards of a filter have every document that it can match
//	pairs     in a round of the balancer a shard takes part in at most one move
//	zone      the balancer never moves a chunk out of its zone
package shard
