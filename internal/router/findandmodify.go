package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// findAndModify answers {findAndModify: collection, query, sort, update or remove, …} with
// the document that it changed. (Manual: database command findAndModify.)
func (r *Router) findAndModify() *command.Command {
	return &command.Command{
		Name: "findAndModify", Aliases: []string{"findandmodify"}, Flags: writeFlags,
		Help: "update a document and return it", Run: r.runFindAndModify,
	}
}

func (r *Router) runFindAndModify(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	r.sampleModify(op, ns)
	upsert := op.Body.Lookup("upsert").Truthy()
	return r.byRoute(ctx, op, ns, func(rt *route) error {
		if rt.primary == "" && upsert {
			if rt, err = r.createDatabase(ctx, op, rt); err != nil {
				return err
			}
		}
		if !rt.isSharded() {
			return r.modify(ctx, op, rt, rt.owners()[0], op.Body)
		}
		if rt.timeseries != nil && !op.Body.Lookup("remove").Truthy() {
			return mongoerr.New(mongoerr.InvalidOptions, "Cannot perform a non-multi update on a time-series collection")
		}
		filter, collation := document(op.Body.Lookup("query")), document(op.Body.Lookup("collation"))
		q, err := rt.queryOf(op, filter, collation)
		if err != nil {
			return err
		}
		t, mode, err := rt.chunks.TargetWrite(&shard.Write{Query: q, Upsert: upsert, Returns: true})
		if err != nil {
			return err
		}
		if mode == shard.Direct {
			return r.modify(ctx, op, rt, t.Shards[0], op.Body)
		}
		return r.modifyChosen(ctx, op, rt, t.Shards, wanted{
			filter: filter, sort: document(op.Body.Lookup("sort")), collation: collation, let: document(op.Body.Lookup("let")), hint: op.Body.Lookup("hint"),
		})
	})
}

// modify runs the command on one shard, and returns its reply.
func (r *Router) modify(ctx context.Context, op *command.Op, rt *route, name string, body bson.Doc) error {
	reply, err := r.askToModify(ctx, op, rt, name, body)
	if err != nil {
		return err
	}
	passReply(op, reply)
	return nil
}

func (r *Router) askToModify(ctx context.Context, op *command.Op, rt *route, name string, body bson.Doc) (bson.Doc, error) {
	var mayBe bson.Doc
	for {
		b := new(bson.Builder).String("findAndModify", op.Collection)
		appendRest(b, body)
		appendMayBe(b, mayBe)
		rt.appendVersions(b, name)
		a, err := r.ask(ctx, op, question{shard: name, db: op.DB, body: b.Finish()})
		if err == nil || !mongoerr.Is(err, mongoerr.WouldChangeOwningShard) {
			return a.Reply, err
		}
		chunk, ok := rt.staysOn(name, mongoerr.From(err))
		if !ok && op.InTransaction() {
			return r.modifyAndMove(ctx, op, nil, rt, name, mongoerr.From(err))
		}
		if !ok && retryable(op) {
			reply, moved, err := r.modifyByOwn(ctx, op, rt, name, body)
			if moved || err != nil {
				return reply, err
			}
			continue
		}
		if !ok || mayBe != nil {
			return a.Reply, errLeavesShard
		}
		mayBe = chunk
	}
}

// modifyByOwn runs a findAndModify that moves its document to another shard in a transaction of
// the router's own; moved is false if it does not any more, or has done so before.
func (r *Router) modifyByOwn(ctx context.Context, op *command.Op, rt *route, from string, body bson.Doc) (reply bson.Doc, moved bool, err error) {
	statement := int32(0)
	if v := op.Body.Lookup("stmtId"); v.IsNumber() {
		statement = int32(bson.ClampToInt64(v))
	}
	moved, err = r.ownTransaction(ctx, op, own{
		rt: rt, from: from, statement: statement,
		execute: func(tx *transaction) error {
			b := new(bson.Builder).String("findAndModify", op.Collection)
			appendRest(b, body)
			rt.appendVersions(b, from)
			_, err := r.ask(ctx, op, question{shard: from, db: op.DB, body: b.Finish(), within: tx})
			return err
		},
		move: func(tx *transaction, e *mongoerr.Error) (bson.Doc, error) {
			reply, err = r.modifyAndMove(ctx, op, tx, rt, from, e)
			return reply, err
		},
	})
	return reply, moved, err
}

// modifyAndMove does the rest of a findAndModify that moves its document to another shard, and
// returns the reply. tx is the router's own transaction, nil for that of op.
func (r *Router) modifyAndMove(ctx context.Context, op *command.Op, tx *transaction, rt *route, from string, e *mongoerr.Error) (bson.Doc, error) {
	before, after := images(e)
	show, doc := from, before
	if op.Body.Lookup("new").Truthy() {
		to, err := rt.chunks.TargetInsert(after)
		if err != nil {
			return nil, err
		}
		show, doc = to, after
	}
	shown := func() (bson.Value, error) { // by the statement's projection
		_, coll := splitNamespace(rt.ns)
		b := new(bson.Builder).String("find", coll).OpenDoc("filter").OpenDoc("_id").Value("$eq", doc.Lookup("_id")).Close().Close().Int32("limit", 1).Bool("singleBatch", true)
		if fields := document(op.Body.Lookup("fields")); !fields.IsEmpty() {
			b.Doc("projection", fields)
		}
		rt.appendVersions(b, show)
		a, err := r.ask(ctx, op, question{shard: show, db: rt.db, body: b.Finish(), within: tx})
		if err != nil {
			return bson.Value{}, err
		}
		if found := documents(document(a.Reply.Lookup("cursor")).Lookup("firstBatch")); len(found) > 0 {
			return bson.Document(found[0]), nil
		}
		return bson.Value{}, errChanges
	}
	var value bson.Value
	var err error
	if show == from {
		if value, err = shown(); err != nil {
			return nil, err
		}
	}
	if err := r.moveDocument(ctx, op, tx, rt, from, e); err != nil {
		return nil, err
	}
	if show != from {
		if value, err = shown(); err != nil {
			return nil, err
		}
	}
	b := new(bson.Builder).OpenDoc("lastErrorObject").Int32("n", 1).Bool("updatedExisting", true).Close().Value("value", value)
	return b.Finish(), nil
}

// passReply returns a shard's reply, except the fields that the router sets itself.
func passReply(op *command.Op, reply bson.Doc) {
	for name, v := range reply.All() {
		switch name {
		case "ok", "$clusterTime", "operationTime", "$configTime", "$topologyTime", "electionId", "opTime", "readOnly":
		default:
			op.Reply.Value(name, v)
		}
	}
}

// modifyChosen chooses the document among all shards, and runs the command on its shard. See
// withoutKey.
func (r *Router) modifyChosen(ctx context.Context, op *command.Op, rt *route, shards []string, w wanted) error {
	if retryable(op) {
		probe := withField(withoutFields(op.Body, "upsert", "hint", "sort"), "query", bson.Document(nothing))
		replies, err := each(rt.owners(), func(name string) (bson.Doc, error) { return r.askToModify(ctx, op, rt, name, probe) })
		if err != nil {
			return err
		}
		for _, reply := range replies {
			if sizeOf(document(reply.Lookup("lastErrorObject")).Lookup("n"), 0) > 0 {
				passReply(op, reply)
				return nil
			}
		}
	}
	for range maxChosen {
		found, err := r.choose(ctx, op, rt, shards, w)
		if err != nil {
			return err
		}
		if found == nil {
			name := shards[0]
			if op.Body.Lookup("upsert").Truthy() {
				if name, err = r.madeBy(op, rt, w, op.Body.Lookup("update"), documents(op.Body.Lookup("arrayFilters")), nil); err != nil {
					return err
				}
			}
			return r.modify(ctx, op, rt, name, op.Body)
		}
		body := withField(withoutFields(op.Body, "upsert"), "query", bson.Document(found.joined(w.filter)))
		reply, err := r.askToModify(ctx, op, rt, found.shard, body)
		if err != nil {
			return err
		}
		if sizeOf(document(reply.Lookup("lastErrorObject")).Lookup("n"), 0) > 0 {
			passReply(op, reply)
			return nil
		}
	}
	return errChanges
}
