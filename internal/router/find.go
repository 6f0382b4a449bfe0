package router

import (
	"context"
	"math"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// find answers {find: collection, filter, …} with a cursor over the matching documents of
// all targeted shards. (Manual: database command find.)
func (r *Router) find() *command.Command {
	return &command.Command{
		Name: "find", Kind: command.KindQuery, Help: "query for documents", Run: r.bySettings(r.atSnapshots(r.runFind)),
		Flags: command.TakesReadConcern | command.TakesSnapshot | command.APIv1 | command.Transaction,
	}
}

// splitNamespace returns the database and the collection of a namespace.
func splitNamespace(ns string) (db, coll string) {
	db, coll, _ = strings.Cut(ns, ".")
	return db, coll
}

// collection returns the name of a command's collection. Errors: 73.
func collection(op *command.Op) (ns string, err error) {
	if _, v := op.Body.First(); v.Type == bson.TypeString && !command.ValidCollectionName(v.Str()) {
		return "", mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s.%s'", op.DB, v.Str())
	}
	return namedCollection(op)
}

// namedCollection is collection for a name that none may have. Errors: 73.
func namedCollection(op *command.Op) (ns string, err error) {
	name, v := op.Body.First()
	switch {
	case v.Type == bson.TypeBinary:
		return "", mongoerr.New(mongoerr.InvalidNamespace, "the command '%s' names its collection by UUID, which is not supported by a router", name)
	case v.Type != bson.TypeString:
		return "", mongoerr.New(mongoerr.InvalidNamespace, "collection name has invalid type %s", v.Type)
	}
	op.SetCollection(strings.Clone(v.Str()))
	return op.NS, nil
}

func (r *Router) runFind(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	r.sampleRead(op, ns, "find", document(op.Body.Lookup("filter")))
	err = r.byRoute(ctx, op, ns, func(rt *route) error { return r.findBy(ctx, op, rt) })
	if view := resolvedView(err); view != nil {
		return r.findOnView(ctx, op, view)
	}
	return err
}

// findBy runs a find, targeted by a route.
func (r *Router) findBy(ctx context.Context, op *command.Op, rt *route) error {
	shards, err := rt.targets(op, document(op.Body.Lookup("filter")), document(op.Body.Lookup("let")), document(op.Body.Lookup("collation")))
	if err != nil {
		return err
	}
	if len(shards) == 1 {
		return r.findOnOne(ctx, op, rt, shards[0])
	}
	r.atOneTime(op)
	cur, err := r.openFind(ctx, op, rt, shards, op.Body)
	if err != nil {
		return err
	}
	return command.WriteCursorReply(ctx, op, command.CursorSpec{
		NS: rt.ns, Cursor: cur, BatchSize: sizeOf(op.Body.Lookup("batchSize"), command.DefaultBatch), SingleBatch: op.Body.Lookup("singleBatch").Truthy(),
		NoTimeout: op.Body.Lookup("noCursorTimeout").Truthy(), Vars: snapshotTime(op),
	})
}

// sizeOf returns an optional number of the client's, or the default.
func sizeOf(v bson.Value, otherwise int64) int64 {
	if !v.IsNumber() {
		return otherwise
	}
	return bson.ClampToInt64(v)
}

// byDistance is the order of a find with $near or $nearSphere.
var byDistance, _ = sortkey.Parse(new(bson.Builder).Int32("distance", 1).Finish())

// nears reports whether a filter orders documents by their distance.
func (s *scope) nears(filter bson.Doc) bool {
	q, err := s.query(filter)
	if err != nil {
		return false // the shards say so
	}
	for _, n := range match.Conjuncts(q.Filter.Root()) {
		if _, ok := n.(*match.GeoNear); ok {
			return true
		}
	}
	return false
}

// plus returns the sum of a skip and a limit, bounded.
func plus(skip, limit int64) int64 {
	if skip > math.MaxInt64-limit {
		return math.MaxInt64
	}
	return skip + limit
}

// noField is the name of a field that no document has.
const noField = "\x01none"

// keepsRest reports whether a projection names nothing but, at most, an _id that it leaves out. With
// a $meta such a one would keep nothing else of a measurement, which is projected as by the stage
// $project; an exclusion has it keep the rest.
func keepsRest(projection bson.Doc) bool {
	for name, v := range projection.All() {
		if name != "_id" || v.Truthy() { // also by an expression
			return false
		}
	}
	return true
}

// findOnOne runs the whole find on one shard, and returns its cursor.
func (r *Router) findOnOne(ctx context.Context, op *command.Op, rt *route, shard string) error {
	b := new(bson.Builder).String("find", op.Collection)
	appendRest(b, op.Body)
	rt.appendVersions(b, shard)
	a, err := r.ask(ctx, op, question{shard: shard, db: op.DB, body: b.Finish(), reads: true})
	if err != nil {
		return err
	}
	return r.passCursor(ctx, op, rt, shard, a)
}

// passCursor replies with the cursor of one shard.
func (r *Router) passCursor(ctx context.Context, op *command.Op, rt *route, shard string, a client.Answer) error {
	cursor := document(a.Reply.Lookup("cursor"))
	op.Stats.IsQuery = true
	if bson.ClampToInt64(cursor.Lookup("id")) == 0 {
		if batch := cursor.Lookup("firstBatch"); batch.Type == bson.TypeArray {
			op.Stats.NReturned = int64(batch.Doc().Len())
		}
		op.Stats.CursorExhausted = true
		op.Reply.Doc("cursor", cursor)
		if unmet := a.Reply.Lookup("writeConcernError"); !unmet.IsMissing() { // of $out or $merge
			op.Reply.Value("writeConcernError", unmet)
		}
		return nil
	}
	m, err := r.newRemote(op, shard, a)
	if err != nil {
		return err
	}
	if at := cursor.Lookup("atClusterTime"); at.Type == bson.TypeTimestamp {
		op.ReadConcern.AtClusterTime = at.Timestamp()
	}
	m.tailable, m.await = op.Body.Lookup("tailable").Truthy(), op.Body.Lookup("awaitData").Truthy()
	return command.WriteCursorReply(ctx, op, command.CursorSpec{
		NS: rt.ns, Cursor: single{m}, BatchSize: int64(len(m.batch)), Tailable: m.tailable, AwaitData: m.await,
		NoTimeout: op.Body.Lookup("noCursorTimeout").Truthy(), Vars: snapshotTime(op),
	})
}

// openFind opens a find on several shards, and merges their results by its sort, skip and
// limit.
func (r *Router) openFind(ctx context.Context, op *command.Op, rt *route, shards []string, body bson.Doc) (command.Cursor, error) {
	skip, limit := sizeOf(body.Lookup("skip"), 0), sizeOf(body.Lookup("limit"), 0)
	sort, err := sortkey.Parse(document(body.Lookup("sort")))
	if err != nil {
		return nil, err
	}
	s, err := newScope(op, rt, document(body.Lookup("let")), document(body.Lookup("collation")))
	if err != nil {
		return nil, err
	}
	ordered, meta := !sort.IsEmpty() && sort.Natural() == 0, "sortKey"
	if sort.IsEmpty() && s.nears(document(body.Lookup("filter"))) {
		ordered, sort, meta = true, byDistance, "geoNearDistance"
	}
	all, err := each(shards, func(shard string) (*remote, error) {
		b := new(bson.Builder).String("find", op.Collection)
		appendRest(b, body, "skip", "limit", "singleBatch", "projection")
		if limit > 0 {
			b.Int64("limit", plus(skip, limit))
		}
		if projection := document(body.Lookup("projection")); ordered {
			b.OpenDoc("projection").Fields(projection).OpenDoc(sortKeyField).String("$meta", meta).Close()
			if rt.timeseries != nil && keepsRest(projection) {
				b.Int32(noField, 0)
			}
			b.Close()
		} else if !projection.IsEmpty() {
			b.Doc("projection", projection)
		}
		rt.appendVersions(b, shard)
		a, err := r.ask(ctx, op, question{shard: shard, db: op.DB, body: b.Finish(), reads: true})
		if err != nil {
			return nil, err
		}
		return r.newRemote(op, shard, a)
	})
	if err != nil {
		closeAll(all)
		return nil, err
	}
	var cur documentCursor = &concatenation{all: all}
	if ordered {
		cur = &merge{all: all, key: keyFromField(sort, s.collator), strip: stripSortKey}
	}
	if skip > 0 || limit > 0 {
		cur = &cut{documentCursor: cur, skip: skip, limit: limit}
	}
	return cur, nil
}
