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
			if o.Kind == KindShardCollection && !o.Args.Lookup("unsplittable").Truthy() {
				o.tells(b, shard, "shardCollection", func(b *bson.Builder) { copied(b, o.Args, "unique", "numInitialChunks", "presplitHashedZones") })
			}
		}))
	}
	return out
}

// tells writes what change streams tell of the operation, where that is up to the shard: the
// primary one of the database. Operations of an earlier build do not say which key there was.
func (o *Operation) tells(b *bson.Builder, shard, name string, fill func(b *bson.Builder)) {
	if v := o.Args.Lookup("primary"); v.Type != bson.TypeString || v.Str() != shard {
		return
	}
	b.OpenDoc("tell").OpenDoc(name).Value("shardKey", o.Args.Lookup("key"))
	if v := o.Args.Lookup("oldKey"); !v.IsMissing() {
		b.Value("oldShardKey", v)
	}
	if fill != nil {
		fill(b)
	}
	b.Close().Close()
}

// collection is the UUID of the collection. In shardCollection it is known only
// after the commit.
func (o *Operation) collection() bson.Value {
	if v := o.Told.Lookup("uuid"); !v.IsMissing() {
		return v
	}
	return o.Args.Lookup("uuid")
}
