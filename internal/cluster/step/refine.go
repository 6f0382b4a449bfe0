package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindRefine adds fields to the end of a collection's shard key.
//
// Args: {shards: its owners and the primary shard, primary, key, oldKey, generation}. Told: {versions}.
const KindRefine = "refine"

// KindUnshard makes a sharded collection, all of which lies on one shard as one chunk, one
// that is not sharded and stays there. Its course is that of KindRefine: what shards are told
// is a key and a version.
//
// Args: {shards: its owner and the primary shard, to: its owner, key, generation,
// unsplittable: true}. Told: {versions}.
const KindUnshard = "unshard"

var refine = phases(
	stages{
		func(o *Operation, _ Answers) []Request {
			return each(texts(o.Args, "shards"), func(shard string) Request {
				r := to(shard, "_shardsvrRefine", o.Namespace, func(b *bson.Builder) {
					copied(b, o.Args, "key", "unsplittable")
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
				copied(b, o.Args, "key", "unsplittable")
				b.Value("version", version)
				if o.Kind == KindRefine {
					o.tells(b, shard, "refineCollectionShardKey", nil)
				}
			}))
		}
		return out
	}},
	stages{abortEach},
)
