package router

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// parts is a pipeline divided: each shard runs one part over what it has, and the router
// the other over what they send.
type parts struct {
	shards, merge []bson.Value
	// sort is the order in which the shards send, and which the merge keeps; nil for none.
	sort bson.Doc
}

// onShards are the stages that look at one document at a time, and so run where it lies.
var onShards = []string{"$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$redact", "$unwind", "$geoNear"}

// joining are the accumulators whose partial results another one joins.
var joining = map[string]string{"$sum": "$sum", "$min": "$min", "$max": "$max", "$count": "$sum"}

// split divides a pipeline at the first stage that must see the documents of all shards.
// That one is done by both sides where it can: shards sort, and what they send is merged;
// they limit, and so does the router; they group and count, and their groups are grouped.
func split(list []bson.Value) parts {
	for i, v := range list {
		name, arg := v.Doc().First()
		before, rest := list[:i:i], list[i:]
		switch {
		case slices.Contains(onShards, name):
			continue
		case name == "$sort" && plainSort(arg):
			p := parts{shards: append(before, v), merge: rest[1:], sort: arg.Doc()}
			if n := limitBehind(rest[1:]); n > 0 {
				p.shards = append(p.shards, stage("$limit", bson.Int64(n)))
			}
			return p
		case name == "$limit" || name == "$skip":
			if n := limitBehind(rest); n > 0 {
				before = append(before, stage("$limit", bson.Int64(n)))
			}
			return parts{shards: before, merge: rest}
		case name == "$sample":
			return parts{shards: append(before, v), merge: rest}
		case name == "$count" && arg.Type == bson.TypeString:
			sum := new(bson.Builder).Null("_id").OpenDoc(arg.Str()).String("$sum", "$"+arg.Str()).Close().Finish()
			hide := new(bson.Builder).Int32("_id", 0).Finish()
			return parts{shards: append(before, v), merge: append([]bson.Value{stage("$group", bson.Document(sum)), stage("$project", bson.Document(hide))}, rest[1:]...)}
		case name == "$group":
			if join := joined(arg); join != nil {
				return parts{shards: append(before, v), merge: append([]bson.Value{stage("$group", bson.Document(join))}, rest[1:]...)}
			}
		}
		return parts{shards: before, merge: rest}
	}
	return parts{shards: list}
}

// stage is a stage as pipelines have it. The value is copied.
func stage(name string, arg bson.Value) bson.Value {
	return bson.Document(new(bson.Builder).Value(name, arg).Finish())
}

// plainSort says whether a sort is by fields that the documents have, so that who merges
// can compare them.
func plainSort(arg bson.Value) bool {
	if arg.Type != bson.TypeDocument {
		return false
	}
	for _, v := range arg.Doc().All() {
		if !v.IsNumber() {
			return false
		}
	}
	return true
}

// limitBehind is how many documents the stages in front let through, $skip and $limit
// alone; 0 where they do not say.
func limitBehind(list []bson.Value) int64 {
	var skip int64
	for _, v := range list {
		name, arg := v.Doc().First()
		switch n := sizeOf(arg, -1); {
		case n < 0:
			return 0
		case name == "$skip":
			skip += n
		case name == "$limit":
			return skip + n
		default:
			return 0
		}
	}
	return 0
}

// joined is the group that joins the groups of shards; nil where an accumulator has no
// partial results.
func joined(arg bson.Value) bson.Doc {
	if arg.Type != bson.TypeDocument {
		return nil
	}
	b := new(bson.Builder).String("_id", "$_id")
	for name, v := range arg.Doc().All() {
		if name == "_id" {
			continue
		}
		if v.Type != bson.TypeDocument {
			return nil
		}
		accumulator, _ := v.Doc().First()
		join := joining[accumulator]
		if join == "" || v.Doc().Len() != 1 {
			return nil
		}
		b.OpenDoc(name).String(join, "$"+name).Close()
	}
	return b.Finish()
}

// named are the collections that a pipeline names besides its own, those of pipelines
// inside included; writes says that it ends with $out or $merge, and into which.
func named(db string, list []bson.Value) (reads []string, writes string) {
	for _, v := range list {
		if v.Type != bson.TypeDocument {
			continue
		}
		name, arg := v.Doc().First()
		switch name {
		case "$lookup", "$graphLookup":
			d := document(arg)
			if from := d.Lookup("from"); from.Type == bson.TypeString {
				reads = append(reads, db+"."+from.Str())
			}
			reads = append(reads, inside(db, d.Lookup("pipeline"))...)
		case "$unionWith":
			if arg.Type == bson.TypeString {
				reads = append(reads, db+"."+arg.Str())
				continue
			}
			d := document(arg)
			if coll := d.Lookup("coll"); coll.Type == bson.TypeString {
				reads = append(reads, db+"."+coll.Str())
			}
			reads = append(reads, inside(db, d.Lookup("pipeline"))...)
		case "$facet":
			for _, p := range document(arg).All() {
				reads = append(reads, inside(db, p)...)
			}
		case "$out", "$merge":
			writes = target(db, arg)
		}
	}
	return reads, writes
}

func inside(db string, list bson.Value) []string {
	if list.Type != bson.TypeArray {
		return nil
	}
	reads, _ := named(db, list.Doc().Slice())
	return reads
}

// target is the namespace that $out or $merge writes into.
func target(db string, arg bson.Value) string {
	if arg.Type == bson.TypeString {
		return db + "." + arg.Str()
	}
	d := document(arg)
	if into := d.Lookup("into"); !into.IsMissing() {
		return target(db, into)
	}
	if other := d.Lookup("db"); other.Type == bson.TypeString {
		db = other.Str()
	}
	if coll := d.Lookup("coll"); coll.Type == bson.TypeString {
		return db + "." + coll.Str()
	}
	return ""
}
