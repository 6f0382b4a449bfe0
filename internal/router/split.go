package router

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// parts is a split pipeline: each shard runs one part over its own documents, and the
// router the other over their results.
type parts struct {
	shards, merge []bson.Value
	// sort is the order of the shards' results, by which they are merged; nil for none.
	sort bson.Doc
	// divided says that the shards begin a stage that the router ends.
	divided bool
}

// onShards has the stages that process one document at a time, and so run on the shards.
var onShards = []string{"$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$redact", "$unwind"}

// split splits a pipeline at the first stage that needs the documents of all shards. Where
// possible both sides execute that stage: shards sort, and the router merges; both apply a
// limit; shards group and count, and the router joins their groups.
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
			p.shards, p.merge = showMeta(p.shards, p.merge, p.sort)
			return p
		case name == "$sort" && metaSort(arg):
			return splitMetaSort(append(before, v), arg.Doc(), rest[1:])
		case name == "$geoNear" && arg.Type == bson.TypeDocument:
			return splitNear(before, arg.Doc(), rest[1:])
		case name == "$limit" || name == "$skip":
			if n := limitBehind(rest); n > 0 {
				before = append(before, stage("$limit", bson.Int64(n)))
			}
			before, rest = showMeta(before, rest, nil)
			return parts{shards: before, merge: rest}
		case name == "$sample":
			return parts{shards: append(before, v), merge: rest}
		case name == "$count" && arg.Type == bson.TypeString:
			sum := new(bson.Builder).Null("_id").OpenDoc(arg.Str()).String("$sum", "$"+arg.Str()).Close().Finish()
			hide := new(bson.Builder).Int32("_id", 0).Finish()
			return parts{shards: append(before, v), merge: append([]bson.Value{stage("$group", bson.Document(sum)), stage("$project", bson.Document(hide))}, rest[1:]...), divided: true}
		}
		if onShards, here, ok := pipeline.SplitGroup(name, arg); ok {
			return parts{shards: append(before, onShards), merge: append(here, rest[1:]...), divided: true}
		}
		return parts{shards: before, merge: rest}
	}
	return parts{shards: list}
}

// only is the $project that keeps the fields with these names and those of the sort; ok is
// false if there is none.
func (p *parts) only(names []string) (v bson.Value, ok bool) {
	for path := range p.sort.All() {
		name, _, _ := strings.Cut(path, ".")
		names = append(names, name)
	}
	if len(names) == 0 { // documents are only counted
		names = []string{"_id"}
	}
	slices.Sort(names)
	var b bson.Builder
	if !slices.Contains(names, "_id") {
		b.Int32("_id", 0)
	}
	for _, name := range slices.Compact(names) {
		if name == "" || name[0] == '$' {
			return v, false
		}
		b.Int32(name, 1)
	}
	return stage("$project", bson.Document(b.Finish())), true
}

// hiddenDistance is the field of the distance of a $geoNear that shows none.
const hiddenDistance = "__distance"

// splitNear splits a pipeline behind a $geoNear: the shards' results are merged by distance.
func splitNear(before []bson.Value, arg bson.Doc, rest []bson.Value) parts {
	field := hiddenDistance
	p := parts{merge: rest}
	if v := arg.Lookup("distanceField"); v.Type == bson.TypeString {
		field = v.Str()
	} else {
		arg = withField(arg, "distanceField", bson.String(field))
		p.merge = append([]bson.Value{stage("$unset", bson.String(field))}, rest...)
	}
	p.shards = append(before, stage("$geoNear", bson.Document(arg)))
	if n := limitBehind(rest); n > 0 {
		p.shards = append(p.shards, stage("$limit", bson.Int64(n)))
	}
	p.sort = new(bson.Builder).Int32(field, 1).Finish()
	return p
}

// hiddenMeta begins the names of the fields by which what is sorted by metadata is merged.
const hiddenMeta = "__meta"

// metaSort reports whether a sort is by metadata, and perhaps by fields.
func metaSort(arg bson.Value) (meta bool) {
	if arg.Type != bson.TypeDocument {
		return false
	}
	for _, v := range arg.Doc().All() {
		kind := document(v).Lookup("$meta")
		if !v.IsNumber() && (kind.Type != bson.TypeString || kind.Str() == "randVal") {
			return false
		}
		meta = meta || !v.IsNumber()
	}
	return meta
}

// splitMetaSort splits a pipeline behind a $sort by metadata, which documents lose on their way:
// shards put it into fields, by which the router merges. Stages behind it that may show it run on
// the shards as well, unless they may change another field of the sort.
func splitMetaSort(before []bson.Value, sort bson.Doc, rest []bson.Value) parts {
	var by, fields bson.Builder
	var hidden []bson.Value
	by.Reset(nil)
	fields.Reset(nil)
	var plain bson.Builder
	plain.Reset(nil)
	for name, v := range sort.All() {
		if v.IsNumber() {
			plain.Value(name, v)
			by.Value(name, v)
			continue
		}
		name = hiddenMeta + bson.Index(len(hidden))
		hidden = append(hidden, bson.String(name))
		fields.Value(name, v)
		by.Int32(name, -1)
	}
	n, fieldsToo := limitBehind(rest), plain.Finish()
	if n > 0 {
		before = append(before, stage("$limit", bson.Int64(n)))
	}
	if n == 0 && fieldsToo.IsEmpty() {
		for len(rest) > 0 {
			if name, _ := rest[0].Doc().First(); !slices.Contains(onShards, name) {
				break
			}
			before, rest = append(before, rest[0]), rest[1:]
		}
	}
	before, rest = showMeta(before, rest, fieldsToo)
	return parts{
		shards: append(before, stage("$addFields", bson.Document(fields.Finish()))), sort: by.Finish(),
		merge: append([]bson.Value{stage("$unset", bson.Array(hidden...))}, rest...),
	}
}

// showMeta moves stages that may show metadata, which documents lose on their way, from what the
// router does to what the shards do: from behind the $skip and $limit that merge begins with. Such
// a stage makes one document of each, and leaves the fields of the sort, so that it does the same
// before them. Without such stages all stays.
func showMeta(shards, merge []bson.Value, sort bson.Doc) (onShards, onRouter []bson.Value) {
	from := 0
	for ; from < len(merge); from++ {
		if name, _ := merge[from].Doc().First(); name != "$skip" && name != "$limit" {
			break
		}
	}
	to := from
	for i := from; i < len(merge) && keepsSort(merge[i].Doc(), sort); i++ {
		if mentionsMeta(merge[i]) {
			to = i + 1
		}
	}
	if to == from {
		return shards, merge
	}
	return slices.Concat(shards, merge[from:to]), slices.Concat(merge[:from], merge[to:])
}

// keepsSort reports whether a stage makes one document of each and leaves the fields of a sort.
func keepsSort(stage, sort bson.Doc) bool {
	name, arg := stage.First()
	if !slices.Contains([]string{"$project", "$addFields", "$set"}, name) || arg.Type != bson.TypeDocument {
		return false
	}
	for path := range sort.All() {
		top, _, _ := strings.Cut(path, ".")
		kept := name != "$project" || top == "_id"
		for field, v := range arg.Doc().All() {
			if first, _, _ := strings.Cut(field, "."); first == top {
				kept = name == "$project" && field == top && (v.IsNumber() || v.Type == bson.TypeBool) && v.Truthy()
			}
		}
		if !kept {
			return false
		}
	}
	return true
}

// mentionsMeta reports whether a value has a field $meta at any depth.
func mentionsMeta(v bson.Value) bool {
	if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
		return false
	}
	for name, inner := range v.Doc().All() {
		if name == "$meta" || mentionsMeta(inner) {
			return true
		}
	}
	return false
}

// stage returns a pipeline stage. It copies the value.
func stage(name string, arg bson.Value) bson.Value {
	return bson.Document(new(bson.Builder).Value(name, arg).Finish())
}

// plainSort reports whether a sort is by fields of the documents, which the merge can
// compare.
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

// limitBehind returns the limit on documents that leading $skip and $limit stages imply, 0
// if there is none.
func limitBehind(list []bson.Value) int64 {
	var skip int64
	for _, v := range list {
		name, arg := v.Doc().First()
		switch n := sizeOf(arg, -1); {
		case n < 0:
			return 0
		case name == "$skip":
			skip = plus(skip, n)
		case name == "$limit":
			return plus(skip, n)
		default:
			return 0
		}
	}
	return 0
}

// named returns the other collections that a pipeline and its nested pipelines read.
// writes is the target of a final $out or $merge.
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

// target returns the namespace that $out or $merge writes into.
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
