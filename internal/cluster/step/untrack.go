package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindUntrack makes a tracked collection that is on the primary shard of its database one
// that config.collections does not name. The commit removes it from there.
//
// Args: {primary, others: all other shards, uuid, unsplittable: true}.
const KindUntrack = "untrack"

var untrack = phases(nil, stages{
	func(o *Operation, _ Answers) []Request {
		requests := each(texts(o.Args, "others"), func(shard string) Request {
			return to(shard, "_shardsvrDrop", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "uuid") })
		})
		return append(requests, to(o.Args.Lookup("primary").Str(), "_shardsvrUnshard", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "uuid", "unsplittable") }))
	},
	dropChunks,
}, nil)
