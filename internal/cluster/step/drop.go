package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindDrop drops a collection: the commit removes it from config.collections, then
// each shard drops it.
//
// Args: {shards, uuid if it is sharded}.
const KindDrop = "drop"

var drop = phases(nil, stages{
	func(o *Operation, _ Answers) []Request {
		return each(texts(o.Args, "shards"), func(shard string) Request {
			return to(shard, "_shardsvrDrop", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "uuid") })
		})
	},
	dropChunks,
}, nil)
