package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindRename renames a sharded collection. Under the new name it has a new generation.
// A collection that has that name already is dropped.
//
// Args: {to, shards: its owners and the primary shard, target: all shards that have the dropped collection, dropTarget: its UUID, version: 0|0 of the
// generation}. Told: {versions}.
const KindRename = "rename"

// KindRenameUnsharded renames an unsharded collection, which its primary shard does
// alone.
//
// Args: {to, primary, dropTarget: bool}.
const KindRenameUnsharded = "renameUnsharded"

var (
	rename = phases(
		stages{blockEach},
		stages{func(o *Operation, _ Answers) []Request {
			var out []Request
			for shard, version := range o.Told.Lookup("versions").Doc().All() {
				out = append(out, to(shard, "_shardsvrRename", o.Namespace, func(b *bson.Builder) {
					copied(b, o.Args, "to", "dropTarget")
					b.Value("version", version)
				}))
			}
			return out
		}, func(o *Operation, _ Answers) []Request {
			return each(texts(o.Args, "target"), func(shard string) Request {
				return to(shard, "_shardsvrDrop", o.Args.Lookup("to").Str(), func(b *bson.Builder) { b.Value("uuid", o.Args.Lookup("dropTarget")) })
			})
		}, dropChunks},
		stages{abortEach},
	)
	renameUnsharded = phases(stages{func(o *Operation, _ Answers) []Request {
		return []Request{to(o.Args.Lookup("primary").Str(), "_shardsvrRename", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "to", "dropTarget") })}
	}}, nil, stages{func(o *Operation, _ Answers) []Request {
		return []Request{to(o.Args.Lookup("primary").Str(), "_shardsvrAbort", o.Namespace, nil)}
	}})
)

// blockEach blocks reads and writes of the collection on each shard.
func blockEach(o *Operation, _ Answers) []Request {
	return each(texts(o.Args, "shards"), func(shard string) Request {
		return to(shard, "_shardsvrBlock", o.Namespace, func(b *bson.Builder) { b.Bool("reads", true) })
	})
}

func abortEach(o *Operation, _ Answers) []Request {
	return each(texts(o.Args, "shards"), func(shard string) Request { return to(shard, "_shardsvrAbort", o.Namespace, nil) })
}
