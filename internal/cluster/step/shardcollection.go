package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindShardCollection shards a collection on the primary shard of its database, or
// creates a sharded one.
//
// Args: {primary, shards: all of them, key, unique, version: 0|0 of its generation,
// existed: the collection was there, …options of the command}. Told: {uuid, versions: {shard: version}}.
const KindShardCollection = "shardCollection"

// LayChunks is executed by the config primary itself once the primary shard has
// described the collection: it writes the chunks, which nobody reads before the commit.
// Its reply is {owners: [shard]}.
const LayChunks = "layChunks"

// DropChunks removes the chunks of collections that are no longer sharded.
const DropChunks = "dropChunks"

var shardCollection = phases(
	stages{
		func(o *Operation, _ Answers) []Request {
			return []Request{to(o.Args.Lookup("primary").Str(), "_shardsvrShard", o.Namespace, func(b *bson.Builder) {
				copied(b, o.Args, "key", "unique", "version", "collation", "implicitlyCreateIndex", "enforceUniquenessCheck", "unsplittable", "timeseries")
			})}
		},
		func(o *Operation, _ Answers) []Request { return []Request{to(Here, LayChunks, o.Namespace, nil)} },
		func(o *Operation, got Answers) []Request {
			primary := o.Args.Lookup("primary").Str()
			is := got.From(primary, "_shardsvrShard")
			var out []Request
			for _, shard := range texts(got.From(Here, LayChunks), "owners") {
				if shard == primary {
					continue
				}
				out = append(out, to(shard, "_shardsvrCreateSharded", o.Namespace, func(b *bson.Builder) {
					copied(b, is, "uuid", "options", "indexes")
					copied(b, o.Args, "key", "unique", "version")
				}))
			}
			return out
		},
	},
	stages{tellVersions},
	stages{
		func(o *Operation, _ Answers) []Request {
			return each(texts(o.Args, "shards"), func(shard string) Request {
				return to(shard, "_shardsvrUnshard", o.Namespace, func(b *bson.Builder) {
					copied(b, o.Args, "unsplittable")
					if o.Args.Lookup("existed").Truthy() && shard == o.Args.Lookup("primary").Str() {
						b.Bool("keep", true)
					}
				})
			})
		},
		dropChunks,
	},
)

func dropChunks(o *Operation, _ Answers) []Request {
	return []Request{to(Here, DropChunks, o.Namespace, nil)}
}
