package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindShardCollection makes a sharded collection, of one that lies on the primary
// shard of its database or of none.
//
// Args: {primary, shards: all of them, key, unique, version: 0|0 of its generation,
// …options of the command}. Told: {uuid, versions: {shard: version}}.
const KindShardCollection = "shardCollection"

// LayChunks is what the config primary does by itself once the primary shard has
// said what there is: it writes the chunks, which are nobody's until the commit. Its
// reply is {owners: [shard]}.
const LayChunks = "layChunks"

// DropChunks removes the chunks of collections that are none any more.
const DropChunks = "dropChunks"

var shardCollection = phases(
	stages{
		func(o *Operation, _ Answers) []Request {
			return []Request{to(o.Args.Lookup("primary").Str(), "_shardsvrShard", o.Namespace, func(b *bson.Builder) {
				copied(b, o.Args, "key", "unique", "version", "implicitlyCreateIndex", "enforceUniquenessCheck")
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
			return each(texts(o.Args, "shards"), func(shard string) Request { return to(shard, "_shardsvrUnshard", o.Namespace, nil) })
		},
		dropChunks,
	},
)

func dropChunks(o *Operation, _ Answers) []Request {
	return []Request{to(Here, DropChunks, o.Namespace, nil)}
}
