package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindChunks is a change of chunks that moves nothing: a split, a merge. Their
// shards are told, as the new versions are above theirs.
//
// Args: {uuid, shards}. Told: {versions: {shard: version}}.
const KindChunks = "chunks"

var chunks = phases(nil, stages{tellVersions}, nil)

// tellVersions tells each shard of Told its version.
func tellVersions(o *Operation, _ Answers) []Request {
	var out []Request
	for shard, version := range o.Told.Lookup("versions").Doc().All() {
		out = append(out, to(shard, "_shardsvrVersion", o.Namespace, func(b *bson.Builder) {
			b.Value("uuid", o.collection())
			b.Value("version", version)
		}))
	}
	return out
}

// collection is the UUID of the collection, which the commit of shardCollection
// finds out.
func (o *Operation) collection() bson.Value {
	if v := o.Told.Lookup("uuid"); !v.IsMissing() {
		return v
	}
	return o.Args.Lookup("uuid")
}
