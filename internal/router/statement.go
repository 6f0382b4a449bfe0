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
	// left, if it is not empty, bounds what is still to be updated; other shards have
	// finished theirs. Ranges of each shard key that the collection had meanwhile.
	left []remaining
	done bool // while it is taken out of the pending ones
}

// remaining are ranges of a shard key in which a statement is not executed yet.
type remaining struct {
	key    *shard.Key
	fields bson.Doc // of the key, as documents of clients have them
	ranges []shard.Range
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

// leftTo returns the shards that may have documents to which the statement is still to be
// applied; without bounds those to which it is targeted.
func (s *statement) leftTo(rt *route, targeted []string) []string {
	if len(s.left) == 0 || rt.chunks == nil {
		return targeted
	}
	last := s.left[len(s.left)-1]
	if !last.key.Same(rt.chunks.Key()) {
		return rt.owners() // the ranges are of a shard key that the collection had before
	}
	return rt.ownersOf(last.ranges)
}

// bounded returns the statement for a shard: its filter has the bounds of what is left.
func (s *statement) bounded() bson.Doc {
	doc, filter := s.doc, s.filter()
	for _, l := range s.left {
		filter = within(l.key, l.fields, filter, l.ranges)
		doc = withField(doc, "q", bson.Document(filter))
	}
	return doc
}

// leave bounds the statement to what some shards own by a route: they have rejected it, and
// others have executed it.
func (s *statement) leave(rt *route, names []string) {
	key, whole := rt.chunks.Key(), []shard.Range{rt.chunks.Key().Whole()}
	n := len(s.left)
	if n > 0 && s.left[n-1].key.Same(key) {
		n--
		whole = s.left[n].ranges
	}
	var ranges []shard.Range
	for _, name := range names {
		for r := range rt.chunks.OwnedBy(name) {
			for _, l := range whole {
				if cut, ok := intersect(r, l); ok {
					ranges = append(ranges, cut)
				}
			}
		}
	}
	s.left = append(s.left[:n:n], remaining{key, rt.shardKey(), ranges})
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
