package step

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// KindDrop drops a collection: the commit removes it from config.collections, then
// each shard drops it, the primary shard of the database last: it tells change streams.
//
// Args: {shards, primary, uuid, view: true for a view, which has none}. The shards drop nothing
// else: a request may be sent again when another collection has the name. There are none if
// nothing has it.
const KindDrop = "drop"

var drop = phases(nil, stages{
	func(o *Operation, _ Answers) []Request { return each(o.others(), o.dropOn) },
	func(o *Operation, _ Answers) []Request { return each(o.primary(), o.dropOn) },
	dropChunks,
}, nil)

func (o *Operation) dropOn(shard string) Request {
	return to(shard, "_shardsvrDrop", o.Namespace, func(b *bson.Builder) { copied(b, o.Args, "uuid", "view") })
}

// others are the operation's shards but the primary one of the database, and primary is that
// one: it is asked last, so that what others have written lies before what it tells. The
// document of an operation that an earlier build has begun does not name it.
func (o *Operation) others() []string {
	return slices.DeleteFunc(texts(o.Args, "shards"), func(s string) bool { return slices.Contains(o.primary(), s) })
}

func (o *Operation) primary() []string {
	if v := o.Args.Lookup("primary"); v.Type == bson.TypeString {
		return []string{v.Str()}
	}
	return nil
}
