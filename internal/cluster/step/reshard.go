package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindReshard gives a sharded collection another shard key: its documents are copied into
// a collection with a name and a UUID of its own, which then takes the place of the old one.
// All requests have the namespace of the old one, so that one fence holds for both.
//
// Args: {uuid: the old one, to: the name of the copy, next: its UUID, key, unique, version: 0|0
// of its generation, primary, shards: the donors, others: all shards, hosts: {shard: host} of
// the donors, …options of the command}. Told: {versions: of the owners and the primary shard}.
const KindReshard = "reshard"

// LayResharded is executed by the config primary itself once the donors have described the
// collection: it writes the chunks under the new UUID, which nobody reads before the commit.
// Its reply is {owners: [shard], ranges: {shard: [{min, max}]}}.
const LayResharded = "layResharded"

var reshard = phases(
	stages{
		donate, // waits until no donor has a range that is not its own
		func(o *Operation, _ Answers) []Request { return []Request{to(Here, LayResharded, o.Namespace, nil)} },
		receiveResharded,
		func(o *Operation, got Answers) []Request {
			return each(recipients(o, got), func(shard string) Request {
				r := to(shard, "_shardsvrReshardReceived", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "to") })
				r.Asks = true
				r.ready = func(reply bson.Doc) (bool, error) {
					return reply.Has("behind") && number(reply, "behind") <= BehindMS, failure(reply)
				}
				r.hurried = func(reply bson.Doc) (bool, error) { return reply.Has("behind"), failure(reply) }
				return r
			})
		},
		func(o *Operation, _ Answers) []Request { return o.blockDonors(false) },
		receiveUntil,
		func(o *Operation, _ Answers) []Request { return o.blockDonors(true) },
	},
	// In parallel: until a donor is told, its reads are blocked.
	stages{func(o *Operation, _ Answers) []Request {
		var out []Request
		versions := o.Told.Lookup("versions").Doc()
		for _, shard := range texts(o.Args, "others") {
			if v := versions.Lookup(shard); !v.IsMissing() {
				out = append(out, to(shard, "_shardsvrReshardOwn", o.Namespace, func(b *bson.Builder) {
					copied(b, o.Args, "to")
					b.Value("uuid", o.Args.Lookup("next"))
					b.Value("version", v)
					o.tells(b, shard, "reshardCollection", func(b *bson.Builder) {
						b.Value("reshardUUID", o.Args.Lookup("next"))
						copied(b, o.Args, "unique", "numInitialChunks")
					})
				}))
				continue
			}
			out = append(out, to(shard, "_shardsvrDrop", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "uuid") }))
		}
		return out
	}, dropChunks},
	stages{func(o *Operation, _ Answers) []Request {
		return each(texts(o.Args, "others"), func(shard string) Request {
			return to(shard, "_shardsvrReshardAbort", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "to") })
		})
	}, dropChunks},
)

// donate asks each donor for options, indexes and the number of documents.
func donate(o *Operation, _ Answers) []Request {
	return each(texts(o.Args, "shards"), func(shard string) Request {
		r := to(shard, "_shardsvrReshard", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "uuid", "key") })
		r.ready = func(reply bson.Doc) (bool, error) { return reply.Lookup("ready").Truthy(), nil }
		return r
	})
}

// recipients are the shards that will have the collection: the owners of its chunks and the
// primary shard.
func recipients(o *Operation, got Answers) []string {
	owners, primary := texts(got.From(Here, LayResharded), "owners"), o.Args.Lookup("primary").Str()
	for _, id := range owners {
		if id == primary {
			return owners
		}
	}
	return append(owners, primary)
}

func receiveResharded(o *Operation, got Answers) []Request {
	donors := texts(o.Args, "shards")
	is, laid := got.From(donors[0], "_shardsvrReshard"), got.From(Here, LayResharded)
	ranges := laid.Lookup("ranges")
	var documents, bytes int64
	for _, donor := range donors {
		has := got.From(donor, "_shardsvrReshard")
		documents, bytes = documents+number(has, "documents"), bytes+number(has, "bytes")
	}
	owners := int64(max(len(texts(laid, "owners")), 1))
	return each(recipients(o, got), func(shard string) Request {
		return to(shard, "_shardsvrReshardReceive", o.Namespace, func(b *bson.Builder) {
			copied(b, o.Args, "to", "key", "unique", "version")
			b.Value("source", o.Args.Lookup("uuid"))
			b.Value("uuid", o.Args.Lookup("next"))
			copied(b, is, "options", "indexes")
			b.OpenArray("donors")
			for i, donor := range donors {
				b.OpenDoc(bson.Index(i)).String("shard", donor).Value("host", o.Args.Lookup("hosts").Doc().Lookup(donor)).Close()
			}
			b.Close()
			if v := ranges.Doc().Lookup(shard); v.Type == bson.TypeArray {
				b.Value("ranges", v).Int64("documents", documents/owners).Int64("bytes", bytes/owners)
			} else {
				b.OpenArray("ranges").Close().Int64("documents", 0).Int64("bytes", 0)
			}
		})
	})
}

// blockDonors blocks writes, and reads as well, of the collection on each donor.
func (o *Operation) blockDonors(reads bool) []Request {
	return each(texts(o.Args, "shards"), func(shard string) Request {
		return to(shard, "_shardsvrBlock", o.Namespace, func(b *bson.Builder) { b.Bool("reads", reads) })
	})
}

// receiveUntil waits until each recipient has all that was written on any donor.
func receiveUntil(o *Operation, got Answers) []Request {
	return each(recipients(o, got), func(shard string) Request {
		r := to(shard, "_shardsvrReshardReceived", o.Namespace, func(b *bson.Builder) {
			copied(b, o.Args, "to")
			b.OpenDoc("until")
			for _, donor := range texts(o.Args, "shards") {
				b.Value(donor, got.From(donor, "_shardsvrBlock").Lookup("position"))
			}
			b.Close()
		})
		r.ready = func(reply bson.Doc) (bool, error) { return true, failure(reply) }
		return r
	})
}
