package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindRefine adds fields to the end of a collection's shard key.
//
// Args: {shards: its owners and the primary shard, key, generation}. Told: {versions}.
const KindRefine = "refine"

var refine = phases(
	stages{
		func(o *Operation, _ Answers) []Request {
			return each(texts(o.Args, "shards"), func(shard string) Request {
				r := to(shard, "_shardsvrRefine", o.Namespace, func(b *bson.Builder) {
					b.Value("key", o.Args.Lookup("key"))
					b.Bool("check", true)
				})
				return r
			})
		},
		blockEach,
	},
	stages{func(o *Operation, _ Answers) []Request {
		var out []Request
		for shard, version := range o.Told.Lookup("versions").Doc().All() {
			out = append(out, to(shard, "_shardsvrRefine", o.Namespace, func(b *bson.Builder) {
				b.Value("key", o.Args.Lookup("key"))
				b.Value("version", version)
			}))
		}
		return out
	}},
	stages{abortEach},
)
