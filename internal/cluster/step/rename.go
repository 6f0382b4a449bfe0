package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindRename renames a sharded collection. Under the new name it has a new generation.
// A collection that has that name already is dropped.
//
// Args: {to, primary, shards: its owners and the primary shard, target: all other shards that
// have the sharded collection with the new name, former: all other shards, which may have an
// entry of the time when they owned something, uuid, dropTarget: bool or the UUID of what has the
// new name, stayTemp: bool, version: 0|0 of the generation}. Told: {versions, dropTarget: the UUID of what has the new name, if anything}.
const KindRename = "rename"

// KindRenameUnsharded renames an unsharded collection, which its primary shard does
// alone.
//
// Args: {to, primary, dropTarget: bool or the UUID of what has the new name, stayTemp: bool}.
const KindRenameUnsharded = "renameUnsharded"

var (
	rename = phases(
		stages{checkRename, checkTargets, blockEach},
		stages{func(o *Operation, _ Answers) []Request {
			var out []Request
			for shard, version := range o.Told.Lookup("versions").Doc().All() {
				out = append(out, to(shard, "_shardsvrRename", o.Namespace, func(b *bson.Builder) {
					copied(b, o.Args, "to", "stayTemp")
					copied(b, o.Told, "dropTarget")
					b.Value("version", version)
				}))
			}
			return out
		}, func(o *Operation, _ Answers) []Request {
			targets := each(texts(o.Args, "target"), func(shard string) Request {
				return to(shard, "_shardsvrDrop", o.Args.Lookup("to").Str(), func(b *bson.Builder) { b.Value("uuid", o.Told.Lookup("dropTarget")) })
			})
			// Else there would be two entries with one UUID when a chunk is moved there.
			return append(targets, each(texts(o.Args, "former"), func(shard string) Request {
				return to(shard, "_shardsvrDrop", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "uuid") })
			})...)
		}, dropChunks},
		stages{abortEach},
	)
	renameUnsharded = phases(stages{checkRename, func(o *Operation, got Answers) []Request {
		source, target := RenameChecked(got)
		return []Request{to(o.Args.Lookup("primary").Str(), "_shardsvrRename", o.Namespace, func(b *bson.Builder) {
			copied(b, o.Args, "to", "stayTemp")
			b.Value("uuid", source)
			if !target.IsMissing() {
				b.Value("dropTarget", target)
			}
		})}
	}}, nil, stages{func(o *Operation, _ Answers) []Request {
		return []Request{to(o.Args.Lookup("primary").Str(), "_shardsvrAbort", o.Namespace, nil)}
	}})
)

// checkRename asks the primary shard whether there is something to rename and whether the
// new name is free or its collection may be dropped, and for the UUIDs of both.
func checkRename(o *Operation, _ Answers) []Request {
	return []Request{to(o.Args.Lookup("primary").Str(), "_shardsvrRename", o.Namespace, func(b *bson.Builder) {
		b.Bool("check", true)
		copied(b, o.Args, "to", "dropTarget")
	})}
}

// checkTargets asks the other shards of a sharded collection the same: a collection with the
// new name that only they have would be in the way after the commit, unless it is sharded and
// thus of an earlier life.
func checkTargets(o *Operation, _ Answers) []Request {
	var out []Request
	for _, shard := range texts(o.Args, "shards") {
		if shard != o.Args.Lookup("primary").Str() {
			out = append(out, to(shard, "_shardsvrRename", o.Namespace, func(b *bson.Builder) {
				b.Bool("check", true).Bool("obsolete", true)
				copied(b, o.Args, "to", "dropTarget")
			}))
		}
	}
	return out
}

// RenameChecked returns the UUIDs that the primary shard found when it was asked whether a
// rename is possible: of the collection, and of what has the new name, missing for nothing.
func RenameChecked(got Answers) (source, target bson.Value) {
	for _, a := range got {
		if a.Name == "_shardsvrRename" {
			return a.Reply.Lookup("uuid"), a.Reply.Lookup("target")
		}
	}
	return bson.Value{Type: bson.Missing}, bson.Value{Type: bson.Missing}
}

// blockEach blocks reads and writes of the collection on each shard.
func blockEach(o *Operation, _ Answers) []Request {
	return each(texts(o.Args, "shards"), func(shard string) Request {
		return to(shard, "_shardsvrBlock", o.Namespace, func(b *bson.Builder) { b.Bool("reads", true) })
	})
}

func abortEach(o *Operation, _ Answers) []Request {
	return each(texts(o.Args, "shards"), func(shard string) Request { return to(shard, "_shardsvrAbort", o.Namespace, nil) })
}
