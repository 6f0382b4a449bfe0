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
	err = r.eachConfig(ctx, configQuery{coll: coll, filter: filter, sort: sort}, func(d bson.Doc) error {
		docs = append(docs, d)
		return nil
	})
	return docs, err
}

// configQuery is a question to the config servers.
type configQuery struct {
	coll                 string
	filter, sort, fields bson.Doc
	// snapshot says that all batches are of one time. Else a document that changes while they are
	// read may be the older one, beside others that have changed after it.
	snapshot bool
}

// eachConfig is readConfig of documents of which there may be many: f gets one after the other,
// and they are kept a batch at a time.
func (r *Router) eachConfig(ctx context.Context, q configQuery, f func(bson.Doc) error) error {
	coll, level := q.coll, "majority"
	if q.snapshot {
		level = "snapshot"
	}
	b := new(bson.Builder).String("find", coll).Doc("filter", q.filter)
	if !q.sort.IsEmpty() {
		b.Doc("sort", q.sort)
	}
	if !q.fields.IsEmpty() {
		b.Doc("projection", q.fields)
	}
	b.OpenDoc("readConcern").String("level", level).Close()
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
