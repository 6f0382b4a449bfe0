package router

import (
	"context"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
	"github.com/mayflydb/mayfly/internal/wire"
)

// batch is the statements of one client's command, all on one namespace.
//
// Ordered statements are sent in runs: consecutive statements that target the same shard
// are one run, and the next run waits for its reply. Unordered ones are sent to all shards
// in parallel. A statement that a shard rejected because of a stale route had no effect,
// and is sent again.
type batch struct {
	r       *Router
	op      *command.Op
	ns      string
	ordered bool
	common  bson.Doc // fields of each command to a shard, other than its statements
	pending []*statement
	again   []*statement // of those that a reply was about: they are sent once more
	results results
}

// results are the outcomes of a batch's statements, by index.
type results struct {
	n, modified int64 // sums, as insert, update and delete answer
	counts      map[int]*counts
	upserted    []upserted
	errors      []failed
	concerns    []concernError
	retried     []int32
}

// counts are the counts of one statement.
type counts struct{ n, modified int64 }

type upserted struct {
	index int
	id    bson.Value
}

type failed struct {
	index int
	err   *mongoerr.Error
}

type concernError struct {
	shard string
	doc   bson.Doc
}

// partBytes bounds the statements of a part that has several, as in mongos. With what the router
// adds to them (their numbers, versions, ranges) a part stays below what a message may have, which
// a client's own batch may fill.
const partBytes = bson.MaxDocumentSize

// part is the statements for one shard that are sent in one command.
type part struct {
	shard      string
	statements []*statement
	docs       []bson.Doc // in the form for the shard
	size       int        // of docs, bytes
	mayBe      bson.Doc   // the chunk that may contain a changed shard key; nil for none
	within     *transaction
	reply      bson.Doc
	err        error
}

// run executes the statements. The error is one of the whole command; errors of statements
// are in the results.
func (b *batch) run(ctx context.Context) error {
	rt, err := b.r.route(ctx, b.ns)
	if err != nil {
		return err
	}
	for stale := 0; len(b.pending) > 0; {
		if rt.primary == "" {
			if rt, err = b.r.createDatabase(ctx, b.op, rt); err != nil {
				return err
			}
		}
		err := b.step(ctx, rt)
		if !isStale(err) {
			if err != nil {
				return err
			}
			stale = 0
			continue
		}
		if stale == maxStale || b.r.staleInTransaction(b.op, rt, err) {
			return err
		}
		if rt, err = b.r.afterStale(ctx, rt, err, stale); err != nil {
			return err
		}
		stale++
	}
	return nil
}

// createDatabase creates a database on the first write to it.
func (r *Router) createDatabase(ctx context.Context, op *command.Op, rt *route) (*route, error) {
	body := new(bson.Builder).String("_configsvrCreateDatabase", rt.db).OpenDoc("writeConcern").String("w", "majority").Close().Finish()
	if _, err := r.config.Run(ctx, adminCall(r.judged(op, body))); err != nil {
		return nil, err
	}
	rt, err := r.fresher(ctx, rt)
	if err == nil && rt.primary == "" {
		err = mongoerr.New(mongoerr.NamespaceNotFound, "database %s not found", rt.db)
	}
	return rt, err
}

// step sends all statements that can be sent now by one route, and merges the replies.
func (b *batch) step(ctx context.Context, rt *route) error {
	parts, alone, err := b.divide(rt)
	if err != nil {
		return err
	}
	if alone != nil {
		return b.withoutKey(ctx, rt, alone)
	}
	if len(parts) == 0 {
		return nil
	}
	if err := b.send(ctx, rt, parts); err != nil {
		return err
	}
	refused := map[*statement][]string{}
	var old error
	for i := range parts {
		left, err := b.take(ctx, rt, &parts[i], len(parts) == 1)
		if err != nil && !isStale(err) {
			return err
		}
		for _, s := range left {
			refused[s] = append(refused[s], parts[i].shard)
		}
		if err != nil {
			old = err
		}
	}
	b.keep(rt, refused, parts)
	return old
}

// divide groups pending statements into parts for shards. alone is the next statement if
// it runs in two phases. A statement that cannot be targeted fails.
func (b *batch) divide(rt *route) (parts []part, alone *statement, err error) {
	for _, s := range slices.Clone(b.pending) {
		p, err := rt.target(b.op, s)
		if err != nil {
			if b.ordered && len(parts) > 0 {
				break
			}
			if b.fail(s, err); b.ordered {
				return nil, nil, nil
			}
			continue
		}
		switch {
		case p.mode == shard.TwoPhase:
			if len(parts) == 0 {
				return nil, s, nil
			}
			if b.ordered {
				return parts, nil, nil
			}
			continue // after the others
		case b.ordered && len(parts) > 0 && (len(p.shards) > 1 || parts[0].shard != p.shards[0] || len(parts) > 1):
			return parts, nil, nil
		}
		p.shards = s.leftTo(rt, p.shards)
		doc := s.bounded()
		if slices.ContainsFunc(parts, func(q part) bool { return q.size+len(doc) > partBytes && slices.Contains(p.shards, q.shard) }) {
			if b.ordered {
				return parts, nil, nil
			}
			continue // after the others
		}
		for _, name := range p.shards {
			i := slices.IndexFunc(parts, func(p part) bool { return p.shard == name })
			if i < 0 {
				i, parts = len(parts), append(parts, part{shard: name})
			}
			parts[i].statements, parts[i].docs = append(parts[i].statements, s), append(parts[i].docs, doc)
			parts[i].size += len(doc)
		}
		if b.ordered && len(p.shards) > 1 {
			return parts, nil, nil
		}
	}
	return parts, nil, nil
}

// ownersOf returns the shards that own parts of the ranges.
func (rt *route) ownersOf(ranges []shard.Range) []string {
	var names []string
	for _, r := range ranges {
		for c := range rt.chunks.Overlapping(r) {
			if !slices.Contains(names, c.Shard) {
				names = append(names, c.Shard)
			}
		}
	}
	slices.Sort(names)
	return names
}

// send sends the parts to their shards in parallel.
func (b *batch) send(ctx context.Context, rt *route, parts []part) error {
	names := make([]string, len(parts))
	for i := range parts {
		names[i] = parts[i].shard
	}
	_, _ = each(names, func(name string) (struct{}, error) {
		p := &parts[slices.Index(names, name)]
		p.reply, p.err = b.ask(ctx, rt, p)
		return struct{}{}, nil
	})
	return ctx.Err()
}

// ask sends statements to a shard.
func (b *batch) ask(ctx context.Context, rt *route, p *part) (bson.Doc, error) {
	_, coll := splitNamespace(rt.ns)
	k := kinds[p.statements[0].kind]
	body := new(bson.Builder).String(k.command, coll).Bool("ordered", b.ordered).Fields(b.common)
	if retryable(b.op) {
		body.OpenArray("stmtIds")
		for i, s := range p.statements {
			body.Int32(bson.Index(i), b.statementID(s.index))
		}
		body.Close()
	}
	appendMayBe(body, p.mayBe)
	rt.appendVersions(body, p.shard)
	a, err := b.r.ask(ctx, b.op, question{shard: p.shard, db: rt.db, body: body.Finish(), sequences: []wire.Sequence{wire.NewSequence(k.batch, p.docs...)}, now: hasNow(p.docs...), within: p.within})
	return a.Reply, err
}

// statementID is the stmtId of a statement, which identifies it in a retry.
func (b *batch) statementID(index int) int32 {
	if ids := b.op.Body.Lookup("stmtIds"); ids.Type == bson.TypeArray {
		if v := ids.Doc().Lookup(bson.Index(index)); v.IsNumber() {
			return int32(bson.ClampToInt64(v))
		}
	}
	if first := b.op.Body.Lookup("stmtId"); first.IsNumber() {
		return int32(bson.ClampToInt64(first)) + int32(index)
	}
	return int32(index)
}

// take merges a shard's reply to a part. The error is one of the whole command, or one
// about a stale route: then left are the statements that had no effect on the shard.
func (b *batch) take(ctx context.Context, rt *route, p *part, only bool) (left []*statement, err error) {
	if p.err != nil {
		e := mongoerr.From(p.err)
		switch {
		case isStale(p.err):
			return p.statements, p.err
		case b.op.InTransaction():
			return nil, p.err
		case b.results.isEmpty() && only || retryable(b.op) && command.MayRetry(e.Code):
			return nil, p.err
		}
		for _, s := range p.statements {
			b.fail(s, e)
			if b.ordered {
				break
			}
		}
		return nil, nil
	}
	stopped, old := len(p.statements), error(nil)
	for _, d := range documents(p.reply.Lookup("writeErrors")) {
		i, e := writeError(d)
		if i < 0 || i >= len(p.statements) {
			return nil, mongoerr.New(mongoerr.InternalError, "shard %s answered with an error of a statement that it did not get: %s", p.shard, d)
		}
		if isStale(e) {
			stopped, old = min(stopped, i), e
			continue
		}
		if b.ordered {
			stopped = min(stopped, i)
		}
		again, err := b.changesKey(ctx, rt, p, i, e)
		if err != nil {
			return nil, err
		}
		if !again {
			b.fail(p.statements[i], translate(e))
		}
	}
	b.count(p)
	b.done(p.statements[:stopped]...)
	for _, s := range b.again {
		b.retry(s)
	}
	b.again = nil
	if old == nil {
		return nil, nil
	}
	return p.statements[stopped:], old
}

// changesKey handles a statement that a shard rejected because it would change a
// document's shard key. A shard does not know what the others own: if it owns the new key
// as well, the statement is sent again with the chunk of the new key.
func (b *batch) changesKey(ctx context.Context, rt *route, p *part, i int, e *mongoerr.Error) (done bool, err error) {
	r, ok := rt.staysOn(p.shard, e)
	if !ok && b.op.InTransaction() && e.Code == mongoerr.WouldChangeOwningShard {
		if err := b.r.moveDocument(ctx, b.op, nil, rt, p.shard, e); err != nil {
			return false, err
		}
		return true, b.moved(p.statements[i])
	}
	if !ok && retryable(b.op) && e.Code == mongoerr.WouldChangeOwningShard && rt.chunks != nil {
		return true, b.moveByOwn(ctx, rt, p, i)
	}
	if !ok || p.mayBe != nil {
		return false, nil
	}
	q := part{shard: p.shard, statements: p.statements[i : i+1], docs: p.docs[i : i+1], mayBe: r}
	q.reply, q.err = b.ask(ctx, rt, &q)
	_, err = b.take(ctx, rt, &q, false)
	return true, err
}

// moved notes that a statement has moved its document to another shard.
func (b *batch) moved(s *statement) error {
	b.results.n++
	b.results.modified++
	b.done(s)
	return nil
}

// moveByOwn executes a statement that moves its document to another shard in a transaction of
// the router's own. If it does not do so any more, or has done it before, it is sent again.
func (b *batch) moveByOwn(ctx context.Context, rt *route, p *part, i int) error {
	s := p.statements[i]
	moved, err := b.r.ownTransaction(ctx, b.op, own{
		rt: rt, from: p.shard, statement: b.statementID(s.index),
		execute: func(tx *transaction) error {
			q := part{shard: p.shard, statements: p.statements[i : i+1], docs: p.docs[i : i+1], within: tx}
			reply, err := b.ask(ctx, rt, &q)
			if errs := documents(reply.Lookup("writeErrors")); err == nil && len(errs) > 0 {
				_, e := writeError(errs[0])
				return e
			}
			return err
		},
		move: func(tx *transaction, e *mongoerr.Error) (bson.Doc, error) {
			return nil, b.r.moveDocument(ctx, b.op, tx, rt, p.shard, e)
		},
	})
	switch {
	case err != nil:
		return err
	case moved:
		return b.moved(s)
	}
	b.again = append(b.again, s)
	return nil
}

// staysOn reports whether error 283 is about a document whose new shard key belongs to the
// same shard, and returns the chunk of that key.
func (rt *route) staysOn(name string, e *mongoerr.Error) (chunk bson.Doc, ok bool) {
	if e.Code != mongoerr.WouldChangeOwningShard || rt.chunks == nil {
		return nil, false
	}
	_, post := images(e)
	at, err := rt.chunks.Key().Append(nil, post)
	if err != nil || rt.chunks.ShardOf(at) != name {
		return nil, false
	}
	c := rt.chunks.Find(at)
	return new(bson.Builder).Doc("min", rt.chunks.Key().Doc(c.Min)).Doc("max", rt.chunks.Key().Doc(c.Max)).Finish(), true
}

// images are the document before and after an update that error 283 is about.
func images(e *mongoerr.Error) (before, after bson.Doc) {
	for _, d := range []bson.Doc{e.Extra, e.Info} {
		if d != nil && d.Has("postImage") {
			return document(d.Lookup("preImage")), document(d.Lookup("postImage"))
		}
	}
	return bson.Empty, bson.Empty
}

// moveDocument does the rest of an update that changes the shard key of a document so that
// another shard owns it: within the transaction it is removed where it is, and inserted there. tx
// is the router's own, nil for that of op.
func (r *Router) moveDocument(ctx context.Context, op *command.Op, tx *transaction, rt *route, from string, e *mongoerr.Error) error {
	before, after := images(e)
	to, err := rt.chunks.TargetInsert(after)
	if err != nil {
		return err
	}
	values, err := rt.chunks.Key().Values(before)
	if err != nil {
		return err
	}
	q := new(bson.Builder).OpenDoc("_id").Value("$eq", before.Lookup("_id")).Close()
	for name, v := range values.All() {
		if name != "_id" {
			q.OpenDoc(name).Value("$eq", v).Close()
		}
	}
	_, coll := splitNamespace(rt.ns)
	deletes := new(bson.Builder).String("delete", coll).OpenArray("deletes").OpenDoc("0").Doc("q", q.Finish()).Int32("limit", 1).Close().Close()
	rt.appendVersions(deletes, from)
	inserts := new(bson.Builder).String("insert", coll).OpenArray("documents").Doc("0", after).Close()
	rt.appendVersions(inserts, to)
	for _, ask := range []question{{shard: from, db: rt.db, body: deletes.Finish(), within: tx}, {shard: to, db: rt.db, body: inserts.Finish(), within: tx}} {
		a, err := r.ask(ctx, op, ask)
		if err != nil {
			return err
		}
		if errs := documents(a.Reply.Lookup("writeErrors")); len(errs) > 0 {
			_, e := writeError(errs[0])
			return e
		}
		if sizeOf(a.Reply.Lookup("n"), 0) != 1 {
			return mongoerr.New(mongoerr.WriteConflict, "the document that an update moves to another shard has changed. Please retry your operation or multi-document transaction.")
		}
	}
	return nil
}

// appendMayBe appends the chunk that may contain the new shard key of a document, if any.
func appendMayBe(b *bson.Builder, chunk bson.Doc) {
	if chunk != nil {
		b.OpenArray("shardKeyMayBe").Doc("0", chunk).Close()
	}
}

// translate returns the error that a router's client gets. A document leaves its shard by a
// transaction: the client's, or the router's own, which needs a number of the statement.
func translate(e *mongoerr.Error) *mongoerr.Error {
	if e.Code != mongoerr.WouldChangeOwningShard {
		return e
	}
	return errLeavesShard
}

var errLeavesShard = mongoerr.New(mongoerr.IllegalOperation,
	"Must run update to shard key field in a multi-statement transaction or with retryWrites: true.")

// keep keeps the statements that shards rejected as stale. A statement that other shards
// have executed is restricted to the ranges of the shards that rejected it.
func (b *batch) keep(rt *route, refused map[*statement][]string, parts []part) {
	for s, names := range refused {
		executed := slices.ContainsFunc(parts, func(p part) bool {
			return !slices.Contains(names, p.shard) && slices.Contains(p.statements, s)
		})
		switch {
		case executed && rt.timeseries != nil && (s.kind == deletes || !b.changed(s, names, parts)):
			// What is gone is gone, and was counted; or nothing has happened.
		case executed && rt.timeseries != nil && rt.timeseries.HasTime(rt.chunks.Key().Pattern()):
			b.fail(s, errSeriesMoved)
			continue
		case executed && rt.chunks != nil:
			s.leave(rt, names)
		}
		b.retry(s)
	}
}

// changed reports whether shards that have executed a statement may have changed something.
func (b *batch) changed(s *statement, rejected []string, parts []part) bool {
	return slices.ContainsFunc(parts, func(p part) bool {
		return !slices.Contains(rejected, p.shard) && slices.Contains(p.statements, s) &&
			(p.err != nil || bson.ClampToInt64(p.reply.Lookup("n")) > 0 || p.reply.Has("writeErrors"))
	})
}

// errSeriesMoved ends an update of which some shards have done their part: it may not name
// times, by which the rest could be told from what is done.
var errSeriesMoved = mongoerr.New(mongoerr.QueryPlanKilled, "chunks of the time-series collection moved while it was updated: some measurements may not be updated")

func intersect(a, b shard.Range) (shard.Range, bool) {
	if !a.Overlaps(b) {
		return shard.Range{}, false
	}
	if a.Min.Compare(b.Min) < 0 {
		a.Min = b.Min
	}
	if b.Max.Compare(a.Max) < 0 {
		a.Max = b.Max
	}
	return a, true
}

// count adds the counts of a reply. A numbered statement is executed once, and who has
// received the records of who has executed it answers the same: that is not added again.
func (b *batch) count(p *part) {
	r := &b.results
	n, modified := sizeOf(p.reply.Lookup("n"), 0), sizeOf(p.reply.Lookup("nModified"), 0)
	if len(p.statements) == 1 {
		if r.counts == nil {
			r.counts = map[int]*counts{}
		}
		c := r.counts[p.statements[0].index]
		if c == nil {
			c = new(counts)
			r.counts[p.statements[0].index] = c
		}
		if retryable(b.op) {
			n, modified = max(n-c.n, 0), max(modified-c.modified, 0)
		}
		c.n += n
		c.modified += modified
	}
	r.n += n
	r.modified += modified
	for _, d := range documents(p.reply.Lookup("upserted")) {
		if i := int(sizeOf(d.Lookup("index"), -1)); i >= 0 && i < len(p.statements) {
			if slices.ContainsFunc(r.upserted, func(u upserted) bool { return u.index == p.statements[i].index }) {
				continue
			}
			r.upserted = append(r.upserted, upserted{p.statements[i].index, d.Lookup("_id")})
		}
	}
	if v := p.reply.Lookup("writeConcernError"); v.Type == bson.TypeDocument {
		r.concerns = append(r.concerns, concernError{p.shard, v.Doc()})
	}
	if v := p.reply.Lookup("retriedStmtIds"); v.Type == bson.TypeArray {
		for id := range v.Doc().Values() {
			if n := int32(bson.ClampToInt64(id)); !slices.Contains(r.retried, n) {
				r.retried = append(r.retried, n)
			}
		}
	}
}

// done removes statements from the pending ones.
func (b *batch) done(all ...*statement) {
	for _, s := range all {
		s.done = true
	}
	b.pending = slices.DeleteFunc(b.pending, func(s *statement) bool { return s.done })
	for _, s := range all {
		s.done = false // it may become pending again
	}
}

// retry makes a statement pending again that had no effect.
func (b *batch) retry(s *statement) {
	if !slices.Contains(b.pending, s) {
		b.pending = append(b.pending, s)
		slices.SortFunc(b.pending, func(x, y *statement) int { return x.index - y.index })
	}
}

// fail records the error of a statement. It ends an ordered batch.
func (b *batch) fail(s *statement, err error) {
	b.done(s)
	if !slices.ContainsFunc(b.results.errors, func(f failed) bool { return f.index == s.index }) {
		b.results.errors = append(b.results.errors, failed{s.index, mongoerr.From(err)})
	}
	if b.ordered {
		b.pending = nil
	}
}

func (r *results) isEmpty() bool {
	return r.n == 0 && len(r.upserted) == 0 && len(r.errors) == 0
}

// writeError reads an element of writeErrors.
func writeError(d bson.Doc) (index int, e *mongoerr.Error) {
	e = &mongoerr.Error{Code: mongoerr.Code(sizeOf(d.Lookup("code"), int64(mongoerr.UnknownError)))}
	if v := d.Lookup("errmsg"); v.Type == bson.TypeString {
		e.Message = v.Str()
	}
	var extra bson.Builder
	for name, v := range d.All() {
		switch name {
		case "index", "code", "errmsg", "codeName":
		case "errInfo":
			e.Info = document(v)
		default:
			extra.Value(name, v)
		}
	}
	if x := extra.Finish(); !x.IsEmpty() {
		e.Extra = x
	} else if isStale(e) {
		e.Extra = e.Info
	}
	return int(sizeOf(d.Lookup("index"), -1)), e
}

// write appends the reply of an insert, an update or a delete.
func (r *results) write(b *bson.Builder, k kind) {
	b.Int("n", r.n)
	if k == updates {
		b.Int("nModified", r.modified)
		if len(r.upserted) > 0 {
			slices.SortFunc(r.upserted, func(x, y upserted) int { return x.index - y.index })
			b.OpenArray("upserted")
			for i, u := range r.upserted {
				b.OpenDoc(bson.Index(i)).Int32("index", int32(u.index)).Value("_id", u.id).Close()
			}
			b.Close()
		}
	}
	slices.SortFunc(r.errors, func(x, y failed) int { return x.index - y.index })
	if len(r.errors) > 0 {
		b.OpenArray("writeErrors")
		for i, f := range r.errors {
			b.OpenDoc(bson.Index(i)).Int32("index", int32(f.index)).Int32("code", int32(f.err.Code))
			if f.err.Info != nil {
				b.Doc("errInfo", f.err.Info)
			}
			if f.err.Extra != nil {
				b.Fields(f.err.Extra)
			}
			b.String("errmsg", f.err.Message).Close()
		}
		b.Close()
	}
	r.writeConcern(b)
}

// writeConcern appends the shards' write concern errors, combined into one as mongos does.
func (r *results) writeConcern(b *bson.Builder) {
	switch len(r.concerns) {
	case 0:
	case 1:
		b.Doc("writeConcernError", r.concerns[0].doc)
	default:
		var text []string
		for _, c := range r.concerns {
			text = append(text, c.doc.Lookup("errmsg").Str()+" at "+c.shard)
		}
		b.OpenDoc("writeConcernError").Int32("code", int32(mongoerr.WriteConcernFailed)).String("codeName", mongoerr.WriteConcernFailed.String()).
			String("errmsg", "Multiple errors reported :: "+strings.Join(text, " :: and :: ")).Close()
	}
	if len(r.retried) > 0 {
		slices.Sort(r.retried)
		b.OpenArray("retriedStmtIds")
		for i, id := range r.retried {
			b.Int32(bson.Index(i), id)
		}
		b.Close()
	}
}
