package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/query/update"
)

// maxChosen bounds the attempts of a statement whose chosen document other clients keep
// changing.
const maxChosen = 1000

// errChanges is the error of a statement after maxChosen attempts.
var errChanges = mongoerr.New(mongoerr.WriteConflict, "the documents that the statement is about change all the time. Please retry your operation")

// choice is the document that was chosen for a statement without the shard key, and its
// shard.
type choice struct {
	shard string
	key   bson.Doc // _id and the fields of the shard key
}

// wanted is the query of a statement on one document.
type wanted struct {
	filter, sort, collation, let bson.Doc
	hint                         bson.Value
}

// choose finds the document for a statement among all shards: the first by its sort, or
// any. It returns nil if none matches.
func (r *Router) choose(ctx context.Context, op *command.Op, rt *route, shards []string, w wanted) (*choice, error) {
	_, coll := splitNamespace(rt.ns)
	b := new(bson.Builder).String("find", coll).Doc("filter", w.filter).Int64("limit", 1)
	b.OpenDoc("projection").Int32("_id", 1)
	fields := rt.chunks.Key().Fields()
	if rt.timeseries != nil {
		fields = []string{rt.timeseries.TimeField} // measurements have no unique _id
	}
	for _, path := range fields {
		if path != "_id" {
			b.Int32(path, 1)
		}
	}
	b.Close()
	ordered := hasSort(w.sort)
	if !w.sort.IsEmpty() {
		b.Doc("sort", w.sort)
	}
	for name, d := range map[string]bson.Doc{"collation": w.collation, "let": w.let} {
		if !d.IsEmpty() {
			b.Doc(name, d)
		}
	}
	if !w.hint.IsMissing() {
		b.Value("hint", w.hint)
	}
	if op.Generic.LSID != nil {
		b.Doc("lsid", op.Generic.LSID)
	}
	body := b.Finish()
	all, err := each(shards, func(name string) (*remote, error) {
		b := new(bson.Builder).String("find", coll)
		leave := []string{}
		if ordered {
			leave = append(leave, "projection")
		}
		appendRest(b, body, leave...)
		if ordered {
			b.OpenDoc("projection").Fields(document(body.Lookup("projection"))).OpenDoc(sortKeyField).String("$meta", "sortKey").Close().Close()
		}
		rt.appendVersions(b, name)
		a, err := r.ask(ctx, op, question{shard: name, db: rt.db, body: b.Finish()})
		if err != nil {
			return nil, err
		}
		return r.newRemote(op, name, a)
	})
	defer closeAll(all)
	if err != nil {
		return nil, err
	}
	var first *remote
	var key func([]byte, bson.Doc) ([]byte, error)
	if ordered {
		s, err := newScope(op, rt, nil, w.collation)
		if err != nil {
			return nil, err
		}
		pattern, err := sortkey.Parse(w.sort)
		if err != nil {
			return nil, err
		}
		key = keyFromField(pattern, s.collator)
	}
	for _, m := range all {
		if m.doc = m.buffered(); m.doc == nil {
			continue
		}
		if key != nil {
			if m.key, err = key(nil, m.doc); err != nil {
				return nil, err
			}
		}
		if first == nil || string(m.key) < string(first.key) {
			first = m
		}
	}
	if first == nil {
		return nil, nil
	}
	d := new(bson.Builder).Value("_id", first.doc.Lookup("_id"))
	if rt.timeseries != nil {
		d.Value(rt.timeseries.TimeField, first.doc.Lookup(rt.timeseries.TimeField))
		return &choice{first.shard, d.Finish()}, nil
	}
	values, err := rt.chunks.Key().Values(first.doc)
	if err != nil {
		return nil, err
	}
	for name, v := range values.All() {
		if name != "_id" {
			d.OpenDoc(name).Value("$eq", v).Close()
		}
	}
	return &choice{first.shard, d.Finish()}, nil
}

// joined returns a filter that matches only the chosen document, and only while it matches
// the statement. By a collation it may match others: the statement's sort then chooses again.
func (c *choice) joined(filter bson.Doc) bson.Doc {
	return new(bson.Builder).OpenArray("$and").Doc("0", filter).Doc("1", c.key).Close().Finish()
}

// madeBy returns the shard of the document that an upsert would insert.
func (r *Router) madeBy(op *command.Op, rt *route, w wanted, u bson.Value, filters []bson.Doc, constants bson.Doc) (string, error) {
	s, err := newScope(op, rt, w.let, w.collation)
	if err != nil {
		return "", err
	}
	q, err := s.query(w.filter)
	if err != nil {
		return "", err
	}
	parsed, err := update.Parse(u, &update.Options{ArrayFilters: filters, Constants: constants, Match: s.match, Expr: s.expr, Collator: s.collator})
	if err != nil {
		return "", err
	}
	d, err := parsed.Upsert(q.Filter, &update.Context{Env: expr.NewEnv(s.env.Now)})
	if err != nil {
		return "", err
	}
	return rt.chunks.TargetInsert(d)
}

// withoutKey executes a statement on one document that any of several shards may have: it
// chooses a document, and sends the statement to its shard for that document only.
func (b *batch) withoutKey(ctx context.Context, rt *route, s *statement) error {
	p, err := rt.target(b.op, s)
	if err != nil {
		b.fail(s, err)
		return nil
	}
	if done, err := b.executedBefore(ctx, rt, s); done || err != nil {
		return err
	}
	w := wanted{filter: s.filter(), sort: document(s.doc.Lookup("sort")), collation: s.collation(), let: document(b.op.Body.Lookup("let")), hint: s.doc.Lookup("hint")}
	for range maxChosen {
		found, err := b.r.choose(ctx, b.op, rt, p.shards, w)
		if isStale(err) || ctx.Err() != nil {
			return err
		}
		if err != nil {
			b.fail(s, err)
			return nil
		}
		q := part{statements: []*statement{s}}
		switch {
		case found != nil:
			q.shard = found.shard
			doc := withField(withoutFields(s.doc, "upsert"), "q", bson.Document(found.joined(s.filter())))
			q.docs = []bson.Doc{doc}
		case s.upsert():
			if q.shard, err = b.r.madeBy(b.op, rt, w, s.doc.Lookup("u"), documents(s.doc.Lookup("arrayFilters")), optional(s.doc.Lookup("c"))); err != nil {
				b.fail(s, err)
				return nil
			}
			q.docs = []bson.Doc{s.doc}
		default:
			b.done(s)
			return nil
		}
		q.reply, q.err = b.ask(ctx, rt, &q)
		if _, err := b.take(ctx, rt, &q, true); err != nil {
			return err
		}
		if q.err != nil || sizeOf(q.reply.Lookup("n"), 0) > 0 || len(documents(q.reply.Lookup("writeErrors"))) > 0 {
			return nil
		}
		b.retry(s) // the document has changed: choose again
	}
	b.fail(s, errChanges)
	return nil
}

// executedBefore reports whether a shard executed a retryable statement in an earlier
// attempt, and merges that reply. It sends the statement to all shards with a filter that
// matches nothing.
func (b *batch) executedBefore(ctx context.Context, rt *route, s *statement) (bool, error) {
	if !retryable(b.op) {
		return false, nil
	}
	doc := withField(withoutFields(s.doc, "upsert", "hint", "sort"), "q", bson.Document(nothing))
	var parts []part
	for _, name := range rt.owners() {
		parts = append(parts, part{shard: name, statements: []*statement{s}, docs: []bson.Doc{doc}})
	}
	if err := b.send(ctx, rt, parts); err != nil {
		return false, err
	}
	for i := range parts {
		p := &parts[i]
		if p.err != nil {
			return false, p.err
		}
		if sizeOf(p.reply.Lookup("n"), 0) > 0 {
			_, err := b.take(ctx, rt, p, true)
			return true, err
		}
	}
	for _, p := range parts {
		for _, d := range documents(p.reply.Lookup("writeErrors")) {
			if _, e := writeError(d); isStale(e) {
				return false, e
			}
		}
	}
	return false, nil
}

// nothing is a filter that matches no document.
var nothing = new(bson.Builder).OpenDoc("_id").OpenArray("$in").Close().Close().Finish()
