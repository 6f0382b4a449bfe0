package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// readConfig reads documents of a collection in the database config with read concern
// majority.
func (r *Router) readConfig(ctx context.Context, coll string, filter, sort bson.Doc) (docs []bson.Doc, err error) {
	err = r.eachConfig(ctx, coll, filter, sort, func(d bson.Doc) error {
		docs = append(docs, d)
		return nil
	})
	return docs, err
}

// eachConfig is readConfig of documents of which there may be many: f gets one after the other,
// and they are kept a batch at a time.
func (r *Router) eachConfig(ctx context.Context, coll string, filter, sort bson.Doc, f func(bson.Doc) error) error {
	b := new(bson.Builder).String("find", coll).Doc("filter", filter)
	if !sort.IsEmpty() {
		b.Doc("sort", sort)
	}
	b.OpenDoc("readConcern").String("level", "majority").Close()
	call := client.Call{DB: "config", Body: b.Finish(), Idempotent: true}
	for name := "firstBatch"; ; name = "nextBatch" {
		a, err := r.config.Run(ctx, call)
		if err != nil {
			return mongoerr.Prefix(err, "reading config."+coll)
		}
		cursor := document(a.Reply.Lookup("cursor"))
		for _, d := range documents(cursor.Lookup(name)) {
			if err := f(d); err != nil {
				return err
			}
		}
		id := bson.ClampToInt64(cursor.Lookup("id"))
		if id == 0 {
			return nil
		}
		call = client.Call{DB: "config", Body: new(bson.Builder).Int64("getMore", id).String("collection", coll).Finish(), Member: a.Member}
	}
}

// optional returns v's document, or nil if v is not a document.
func optional(v bson.Value) bson.Doc {
	if v.Type != bson.TypeDocument {
		return nil
	}
	return v.Doc()
}

// document returns v's document, or an empty one.
func document(v bson.Value) bson.Doc {
	if v.Type != bson.TypeDocument {
		return bson.Empty
	}
	return v.Doc()
}
