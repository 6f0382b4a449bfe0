package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindDrop drops a collection: the commit takes it from config.collections, and
// then each shard is told.
//
// Args: {shards, uuid where it is sharded}.
const KindDrop = "drop"

var drop = phases(nil, stages{
	func(o *Operation, _ Answers) []Request {
		return each(texts(o.Args, "shards"), func(shard string) Request {
			return to(shard, "_shardsvrDrop", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "uuid") })
		})
	},
	dropChunks,
}, nil)
