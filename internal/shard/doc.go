// Package shard has the rules of sharding as pure functions: which shard a
// document belongs to, which shards a statement concerns, how a collection's
// key space is cut into chunks, and which chunks the balancer moves where. It
// does no I/O, stores nothing, and has no clock: the router asks it where to
// send, the config servers ask it what to write, a shard asks it what it owns.
//
// Start reading at chunkmap.go; key.go says where in the key space a document
// is, target.go which shards a filter concerns, initial.go how a new collection
// is cut, plan.go what splits, merges and moves do to the chunks, balance.go
// what the balancer would do next. (MongoDB's manual, "Hashed Sharding",
// "Ranges", "Zones", "Sharded Cluster Balancer".)
//
// Invariants:
//
//	cover     the chunks of a map cover the key space: the first begins at the
//	          lowest key, each begins where the one before ends, the last ends at
//	          the highest key; none is empty
//	shared    a map never changes; one made from another shares all blocks of
//	          chunks that did not change
//	version   each change of chunks gets versions above all that the collection
//	          has; a shard that gives a chunk away and keeps others has one of
//	          these raised, so that its version rises, too
//	superset  the shards that a filter is sent to hold every document that it
//	          could match
//	pairs     in a round of the balancer a shard takes part in one move at most
//	zone      the balancer never moves a chunk out of its zone
package shard
