package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindChunks changes chunks without moving data: a split or a merge. Their shards
// get the new versions, which are higher than the ones they have.
//
// Args: {uuid, shards}. Told: {versions: {shard: version}}.
const KindChunks = "chunks"

var chunks = phases(nil, stages{tellVersions}, nil)

// tellVersions sends each shard in Told its version.
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

// collection is the UUID of the collection. In shardCollection it is known only
// after the commit.
func (o *Operation) collection() bson.Value {
	if v := o.Told.Lookup("uuid"); !v.IsMissing() {
		return v
	}
	return o.Args.Lookup("uuid")
}
