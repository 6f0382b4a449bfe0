package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindIndexes runs createIndexes, dropIndexes or collMod on all shards of a
// collection. If one of them fails, the indexes that the others have created are dropped. What
// only the documents of a shard tell, whether an index can be unique, is asked before.
//
// Args: {shards, command, dry: what is asked before, undo: {shard: [names of indexes that were not there]}}.
const KindIndexes = "indexes"

// runOnEach runs a command, which is an argument of the operation, on each shard.
func runOnEach(name string) stage {
	return func(o *Operation, _ Answers) []Request {
		command := o.Args.Lookup(name)
		if command.IsMissing() {
			return nil
		}
		return each(texts(o.Args, "shards"), func(shard string) Request {
			return to(shard, "_shardsvrIndexes", o.Namespace, func(b *bson.Builder) { b.Value("command", command) })
		})
	}
}

var indexes = phases(
	stages{runOnEach("dry"), runOnEach("command")},
	nil,
	// All shards get it, so that a late request meets the fence.
	stages{func(o *Operation, _ Answers) []Request {
		return each(texts(o.Args, "shards"), func(shard string) Request {
			names := o.Args.Lookup("undo").Doc().Lookup(shard)
			if names.IsMissing() {
				return to(shard, "_shardsvrAbort", o.Namespace, nil)
			}
			return to(shard, "_shardsvrIndexes", o.Namespace, func(b *bson.Builder) { b.Value("drop", names) })
		})
	}},
)
