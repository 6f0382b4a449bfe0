package router

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/shard"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// kind is the kind of a batch's statements.
type kind uint8

const (
	inserts kind = iota
	updates
	deletes
)

// kinds has the names of the commands and of their batches.
var kinds = [...]struct{ command, batch string }{{"insert", "documents"}, {"update", "updates"}, {"delete", "deletes"}}

// statement is one statement of a batch.
type statement struct {
	kind  kind
	index int      // in the client's batch
	doc   bson.Doc // an element of documents, updates or deletes
	// left, if not nil, has the ranges that are still to be updated; other shards have
	// finished theirs.
	left []shard.Range
	done bool // while it is taken out of the pending ones
}

func (s *statement) filter() bson.Doc    { return document(s.doc.Lookup("q")) }
func (s *statement) collation() bson.Doc { return document(s.doc.Lookup("collation")) }

// multi reports whether the statement applies to many documents.
func (s *statement) multi() bool {
	switch s.kind {
	case updates:
		return s.doc.Lookup("multi").Truthy()
	case deletes:
		limit := s.doc.Lookup("limit")
		return limit.IsNumber() && bson.ToDouble(limit) == 0
	}
	return false
}

func (s *statement) upsert() bool { return s.kind == updates && s.doc.Lookup("upsert").Truthy() }

// place says which shards execute a statement, and how.
type place struct {
	shards []string
	mode   shard.Mode
}

// target targets a statement by a route. Its error is the statement's.
func (rt *route) target(op *command.Op, s *statement) (place, error) {
	if !rt.isSharded() {
		return place{shards: rt.owners()}, nil
	}
	if s.kind == inserts {
		doc := s.doc
		if rt.timeseries != nil {
			var err error
			if doc, err = timeseries.PlaceOf(doc, rt.timeseries); err != nil {
				return place{}, err
			}
		}
		owner, err := rt.chunks.TargetInsert(doc)
		return place{shards: []string{owner}}, err
	}
	if err := rt.checkUpdate(s); err != nil {
		return place{}, err
	}
	q, err := rt.queryOf(op, s.filter(), s.collation())
	if err != nil {
		return place{}, err
	}
	w := shard.Write{Query: q, Multi: s.multi(), Upsert: s.upsert(), Returns: !document(s.doc.Lookup("sort")).IsEmpty() || rt.timeseries != nil} // _id is not unique in one
	t, mode, err := rt.chunks.TargetWrite(&w)
	return place{t.Shards, mode}, err
}

// queryOf parses a filter in the scope of op's command.
func (rt *route) queryOf(op *command.Op, filter, collation bson.Doc) (*plan.Query, error) {
	s, err := newScope(op, rt, document(op.Body.Lookup("let")), collation)
	if err != nil {
		return nil, err
	}
	q, err := s.query(filter)
	if needsJavaScript(err) { // no shard key is looked for in it
		q, err = s.query(bson.Empty)
	}
	if err != nil {
		return nil, err
	}
	return rt.overBuckets(q)
}

// checkUpdate rejects what a time series takes no update of, before a shard is chosen. Errors:
// 72.
func (rt *route) checkUpdate(s *statement) error {
	switch {
	case rt.timeseries == nil || s.kind != updates:
		return nil
	case s.upsert():
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot perform an upsert on a time-series collection")
	case !s.multi():
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot perform a non-multi update on a time-series collection")
	}
	return nil
}

// shardKey returns the shard key's fields as a client's documents have them.
func (rt *route) shardKey() bson.Doc {
	if rt.timeseries != nil {
		return rt.timeseries.ShardKeyIndex(rt.chunks.Key().Pattern())
	}
	return rt.chunks.Key().Pattern()
}

// within returns a filter that matches only documents in ranges of a shard key, whose fields
// documents have under the names of fields.
func within(key *shard.Key, fields, filter bson.Doc, ranges []shard.Range) bson.Doc {
	var place bson.Builder // {k0: the first field's place in the key space, …}
	i := 0
	for path, v := range fields.All() {
		name := sortKeyPart(i)
		i++
		if v.IsNumber() {
			place.OpenDoc(name).OpenArray("$ifNull").String("0", "$"+path).Null("1").Close().Close()
		} else {
			place.OpenDoc(name).String("$toHashedIndexKey", "$"+path).Close()
		}
	}
	bounds := place.Finish()
	b := new(bson.Builder)
	b.OpenArray("$and").Doc("0", filter).OpenDoc("1").OpenDoc("$expr").OpenArray("$or")
	for i, r := range ranges {
		b.OpenDoc(bson.Index(i)).OpenArray("$and")
		for j, end := range []struct {
			operator string
			bound    shard.Bound
		}{{"$gte", r.Min}, {"$lt", r.Max}} {
			b.OpenDoc(bson.Index(j)).OpenArray(end.operator).Doc("0", bounds).OpenDoc("1").OpenDoc("$literal")
			k := 0
			for _, v := range key.Doc(end.bound).All() {
				b.Value(sortKeyPart(k), v)
				k++
			}
			b.Close().Close().Close().Close()
		}
		b.Close().Close()
	}
	b.Close().Close().Close().Close()
	return b.Finish()
}

// withField returns a copy of a document with one field set.
func withField(d bson.Doc, name string, v bson.Value) bson.Doc {
	var b bson.Builder
	found := false
	for n, was := range d.All() {
		if n == name {
			found, was = true, v
		}
		b.Value(n, was)
	}
	if !found {
		b.Value(name, v)
	}
	return b.Finish()
}

// withoutFields returns a copy of a document without some of its fields.
func withoutFields(d bson.Doc, names ...string) bson.Doc {
	var b bson.Builder
fields:
	for n, v := range d.All() {
		for _, name := range names {
			if n == name {
				continue fields
			}
		}
		b.Value(n, v)
	}
	return b.Finish()
}

// hasSort reports whether a statement has a non-empty sort.
func hasSort(d bson.Doc) bool {
	p, err := sortkey.Parse(d)
	return err == nil && !p.IsEmpty() && p.Natural() == 0
}
