package node

import (
	"cmp"
	"context"
	"github.com/mayflydb/mayfly/internal/access"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
)

var listCollectionsFields = command.NewFields("listCollections",
	command.Object("filter"),
	command.Bool("nameOnly"),
	command.Bool("authorizedCollections"),
	command.Struct("cursor", cursorFields),
	command.Ignored("includePendingDrops"),
)

// listCollections answers {listCollections: 1} with a cursor over the
// collections and views of a database. (Manual: database command
// listCollections.)
func (n *Node) listCollections() *command.Command {
	return &command.Command{
		Name: "listCollections", Fields: listCollectionsFields, Flags: command.ChecksDatabase | command.APIv1,
		Help: "list collections for this db",
		Run:  n.runListCollections,
	}
}

func (n *Node) runListCollections(ctx context.Context, op *command.Op) error {
	filter, err := ListFilter(op.Args.Doc("filter"))
	if err != nil {
		return err
	}
	nameOnly, authorized := op.Args.Bool("nameOnly"), op.Args.Bool("authorizedCollections")
	var docs []bson.Doc
	for _, c := range n.Catalog.Collections(op.DB) {
		for _, d := range listedCollection(c, nameOnly) {
			if authorized && !access.Sees(op, op.DB, d.Lookup("name").Str()) {
				continue
			}
			ok, err := filter.Match(d)
			if err != nil {
				return err
			}
			if ok {
				docs = append(docs, d)
			}
		}
	}
	slices.SortStableFunc(docs, func(a, b bson.Doc) int { return cmp.Compare(a.Lookup("name").Str(), b.Lookup("name").Str()) })
	return command.WriteCursorReply(ctx, op, command.CursorSpec{
		NS: op.DB + ".$cmd.listCollections", Cursor: command.Documents(docs), BatchSize: batchSize(&op.Args),
	})
}

// listedCollection is the entry of a collection; a time-series collection has
// another one for its buckets.
func listedCollection(c *catalog.Collection, nameOnly bool) []bson.Doc {
	kind := "collection"
	switch {
	case c.IsView():
		kind = "view"
	case c.IsTimeseries():
		kind = "timeseries"
	}
	var b bson.Builder
	b.String("name", c.Namespace.Coll).String("type", kind)
	if !nameOnly {
		options := c.Options
		if options == nil {
			options = bson.Empty
		}
		b.Doc("options", options).OpenDoc("info").Bool("readOnly", kind == "view")
		if kind == "collection" {
			b.Binary("uuid", 4, c.UUID[:])
		}
		b.Close()
		if kind == "collection" && c.Settings.Clustered == nil {
			if ix := c.Index("_id_"); ix != nil {
				b.Doc("idIndex", ix.ListForm())
			}
		}
	}
	docs := []bson.Doc{b.Finish()}
	if kind == "timeseries" {
		docs = append(docs, listedBuckets(c, nameOnly))
	}
	return docs
}

// listedBuckets is the entry of the collection behind a time-series collection.
func listedBuckets(c *catalog.Collection, nameOnly bool) bson.Doc {
	var b bson.Builder
	b.String("name", c.Namespace.Buckets().Coll).String("type", "collection")
	if nameOnly {
		return b.Finish()
	}
	b.OpenDoc("options").Doc("validator", bucketsValidator(c.Settings.Timeseries.TimeField)).Bool("clusteredIndex", true)
	for _, name := range []string{"collation", "expireAfterSeconds", "timeseries"} {
		b.Value(name, c.Options.Lookup(name))
	}
	return b.Close().OpenDoc("info").Bool("readOnly", false).Binary("uuid", 4, c.UUID[:]).Close().Finish()
}

// bucketsValidator is the schema that the server shows for buckets.
func bucketsValidator(timeField string) bson.Doc {
	object := func(name string, b *bson.Builder) *bson.Builder { return b.OpenDoc(name).String("bsonType", "object") }
	var b bson.Builder
	b.OpenDoc("$jsonSchema").String("bsonType", "object").Strings("required", "_id", "control", "data").OpenDoc("properties")
	b.OpenDoc("_id").String("bsonType", "objectId").Close()
	object("control", &b).Strings("required", "version", "min", "max").OpenDoc("properties")
	b.OpenDoc("version").String("bsonType", "number").Close()
	for _, bound := range []string{"min", "max"} {
		object(bound, &b).Strings("required", timeField).OpenDoc("properties").
			OpenDoc(timeField).String("bsonType", "date").Close().Close().Close()
	}
	b.OpenDoc("closed").String("bsonType", "bool").Close().OpenDoc("count").String("bsonType", "number").Int32("minimum", 1).Close()
	b.Close().Bool("additionalProperties", false).Close()
	b.OpenDoc("data").String("bsonType", "object").Close().OpenDoc("meta").Close()
	return b.Close().Bool("additionalProperties", false).Close().Finish()
}
