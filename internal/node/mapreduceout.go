package node

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// mapReduceOut says where the results of a mapReduce go.
type mapReduceOut struct {
	mode     string // "" for inline, "replace", "merge" or "reduce"
	db, coll string
	named    bool // the command named the database
}

func parseMapReduceOut(db string, v bson.Value) (mapReduceOut, error) {
	switch v.Type {
	case bson.TypeString:
		return mapReduceOut{mode: "replace", db: db, coll: v.Str()}, nil
	case bson.TypeDocument:
		return parseMapReduceTarget(db, v.Doc())
	}
	return mapReduceOut{}, mongoerr.New(mongoerr.BadValue, "'out' must be either a string or an object")
}

// parseMapReduceTarget reads {inline: 1}, or {replace|merge|reduce: collection,
// db: name} with the deprecated options.
func parseMapReduceTarget(db string, d bson.Doc) (mapReduceOut, error) {
	o := mapReduceOut{db: db}
	if v := d.Lookup("inline"); !v.IsMissing() {
		switch {
		case d.Len() != 1:
			return o, mongoerr.New(mongoerr.InvalidOptions, "'inline' must be specified alone")
		case !v.IsNumber() || bson.ToDouble(v) != 1:
			return o, mongoerr.New(mongoerr.BadValue, "'inline' takes only numeric '1'")
		}
		return o, nil
	}
	known := 1
	sharded, err := onlyTrue(d, "sharded", &known)
	if err != nil {
		return o, err
	}
	for _, mode := range []string{"replace", "merge", "reduce"} {
		v := d.Lookup(mode)
		if v.IsMissing() {
			continue
		}
		if v.Type != bson.TypeString {
			return o, mongoerr.New(mongoerr.BadValue, "'%s' supports only string consisting of output collection name", mode)
		}
		o.mode, o.coll = mode, v.Str()
		break
	}
	if o.mode == "" {
		return o, mongoerr.New(mongoerr.BadValue, "'out' requires 'replace', 'merge' or 'reduce'")
	}
	if v := d.Lookup("db"); !v.IsMissing() {
		known++
		if v.Type != bson.TypeString {
			return o, mongoerr.New(mongoerr.BadValue, "db field value must be string")
		}
		o.db, o.named = v.Str(), true
		if o.db == "admin" || o.db == "config" || o.db == "local" {
			return o, mongoerr.New(mongoerr.CommandNotSupported, "cannot target internal database as output")
		}
	}
	if _, err := onlyTrue(d, "nonAtomic", &known); err != nil {
		return o, err
	}
	if d.Len() != known {
		return o, mongoerr.New(mongoerr.BadValue, "'out' supports only output type with collection name, optional 'sharded' and optional 'db'")
	}
	if sharded && o.mode == "replace" {
		return o, mongoerr.New(mongoerr.InvalidOptions, "Combination of 'out.sharded' and 'replace' output mode is not supported. Cannot "+
			"replace an existing sharded collection or create a new sharded collection. Please create the sharded collection first and use a "+
			"different output mode or consider using an unsharded collection.")
	}
	if sharded {
		return o, mongoerr.New(mongoerr.InvalidOptions, "Cannot use mapReduce to create a new sharded collection. Please create and shard "+
			"the target collection before proceeding.")
	}
	return o, nil
}

// onlyTrue reads an option that may only be true, and counts it if it is
// there.
func onlyTrue(d bson.Doc, name string, known *int) (given bool, err error) {
	v := d.Lookup(name)
	if v.IsMissing() {
		return false, nil
	}
	*known++
	switch {
	case v.Type != bson.TypeBool:
		return false, mongoerr.New(mongoerr.BadValue, "%s field value must be boolean", name)
	case !v.Bool():
		return false, mongoerr.New(mongoerr.BadValue, "%s field value must be true", name)
	}
	return true, nil
}

// stage returns the stage that writes the results, "" if they are returned
// in the reply.
func (o *mapReduceOut) stage(m *mapReduction) (name string, arg bson.Value) {
	if o.mode == "" {
		return "", arg
	}
	target := new(bson.Builder).String("db", o.db).String("coll", o.coll).Finish()
	if o.mode == "replace" {
		return "$out", bson.Document(target)
	}
	matched := bson.String("replace")
	if o.mode == "reduce" {
		both := bson.Array(bson.String("$value"), bson.String("$$new.value"))
		var list Stages
		list.add("$project", valueBy(m.reduce, bson.String("$_id"), both))
		if !m.finalize.IsMissing() {
			list.add("$project", valueBy(m.finalize, bson.String("$_id"), bson.String("$value")))
		}
		matched = bson.Array(list...)
	}
	b := new(bson.Builder).Doc("into", target).String("on", "_id").Value("whenMatched", matched).String("whenNotMatched", "insert")
	return "$merge", bson.Document(b.Finish())
}

// write writes the reply.
func (o *mapReduceOut) write(b *bson.Builder, results bson.Doc) {
	switch {
	case o.mode == "":
		b.Array("results", results)
	case o.named:
		b.OpenDoc("result").String("db", o.db).String("collection", o.coll).Close()
	default:
		b.String("result", o.coll)
	}
}
