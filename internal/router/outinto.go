package router

import (
	"context"
	"iter"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
)

// outInto is the target of an $out: a temporary collection, which replaces the target
// once all documents are written.
type outInto struct {
	w        *world
	into, to string // the namespaces of the temporary collection and of the target
	held     []bson.Doc
	bytes    int
	finished bool
}

func splitPath(path string) iter.Seq[string] { return strings.SplitSeq(path, ".") }

func (w *world) newOut(ctx context.Context, o *pipeline.Out) (pipeline.Target, error) {
	to := o.Into.DB + "." + o.Into.Coll
	rt, err := w.a.r.route(ctx, to)
	if err != nil {
		return nil, err
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	if rt.chunks != nil {
		return nil, mongoerr.New(mongoerr.Code(28769), "namespace '%s' is sharded so it can't be used for $out'", to)
	}
	if rt.primary == "" {
		if rt, err = w.a.r.createDatabase(ctx, w.a.op, rt); err != nil {
			return nil, err
		}
	}
	t := &outInto{w: w, to: to, into: o.Into.DB + ".tmp.agg_out." + bson.FormatObjectID(bson.NewObjectID())}
	return t, t.create(ctx, rt, o)
}

// create creates the temporary collection with the options and the indexes of the target.
func (t *outInto) create(ctx context.Context, rt *route, o *pipeline.Out) error {
	old := o.Into
	_, name := splitNamespace(t.into)
	ask := func(body bson.Doc) (client.Answer, error) {
		return t.w.a.r.ask(ctx, t.w.a.op, question{shard: rt.owners()[0], db: old.DB, body: body})
	}
	a, err := ask(new(bson.Builder).Int32("listCollections", 1).OpenDoc("filter").String("name", old.Coll).Close().Finish())
	if err != nil {
		return err
	}
	create := new(bson.Builder).String("create", name)
	found := documents(document(a.Reply.Lookup("cursor")).Lookup("firstBatch"))
	if !o.Timeseries.IsMissing() {
		asked, err := outTimeseries(t.to, o.Timeseries.Doc(), found)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			create.Fields(asked)
		}
	}
	if len(found) > 0 {
		options := document(found[0].Lookup("options"))
		if options.Lookup("capped").Truthy() {
			return mongoerr.New(mongoerr.Code(17152), "namespace '%s' is capped so it can't be used for $out", t.to)
		}
		create.Fields(options)
	}
	if _, err = ask(create.Finish()); err != nil || len(found) == 0 {
		return err
	}
	if a, err = ask(new(bson.Builder).String("listIndexes", old.Coll).Finish()); err != nil {
		return err
	}
	b := new(bson.Builder).String("createIndexes", name).OpenArray("indexes")
	n := 0
	for _, ix := range documents(document(a.Reply.Lookup("cursor")).Lookup("firstBatch")) {
		if v := ix.Lookup("name"); v.Type == bson.TypeString && v.Str() == "_id_" || ix.Has("clustered") {
			continue
		}
		b.Doc(bson.Index(n), withoutFields(ix, "v"))
		n++
	}
	if n == 0 {
		return nil
	}
	_, err = ask(b.Close().Finish())
	return err
}

// outTimeseries returns the options of a time-series collection that $out makes. Errors: 7268700,
// 7406103 if the target, which may be there, is another one.
func outTimeseries(to string, d bson.Doc, target []bson.Doc) (bson.Doc, error) {
	asked, err := schema.OutTimeseries(d)
	if err != nil {
		return nil, err
	}
	if len(target) == 0 {
		return asked.Doc(), nil
	}
	has, err := schema.LoadOptions(document(target[0].Lookup("options")))
	switch {
	case err != nil:
		return nil, err
	case has.Timeseries == nil:
		return nil, mongoerr.New(mongoerr.Code(7268700), "Cannot create a time-series collection from a non time-series collection or view: %s", to)
	case !has.Timeseries.Same(asked.Timeseries):
		return nil, mongoerr.New(mongoerr.Code(7406103), "Time field, meta field, granularity and bucket parameters given to $out do not match those of the time-series collection %s", to)
	}
	return nil, nil
}

// Add implements pipeline.Target.
func (t *outInto) Add(ctx context.Context, d bson.Doc) error {
	d = withID(d).Clone()
	t.held, t.bytes = append(t.held, d), t.bytes+len(d)
	if len(t.held) < maxHeld && t.bytes < maxHeldBytes {
		return nil
	}
	return t.flush(ctx)
}

func (t *outInto) flush(ctx context.Context) error {
	if len(t.held) == 0 {
		return nil
	}
	_, err := t.w.write(ctx, t.into, inserts, t.held...)
	t.held, t.bytes = nil, 0
	return err
}

// Finish implements pipeline.Target: it renames the temporary collection to the target.
func (t *outInto) Finish(ctx context.Context) error {
	if err := t.flush(ctx); err != nil {
		return err
	}
	body := new(bson.Builder).String("_configsvrRenameCollection", t.into).String("to", t.to).Bool("dropTarget", true).Finish()
	_, err := t.w.a.r.config.Run(ctx, client.Call{DB: "admin", Body: t.w.a.r.judged(t.w.a.op, body)})
	t.w.a.r.routes.forget(func(ns string) bool { return ns == t.to || ns == t.into })
	t.finished = err == nil
	return err
}

// Close implements pipeline.Target: it drops an unfinished temporary collection.
func (t *outInto) Close() {
	if t.finished {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	// If this fails, the shard drops the temporary collection when it restarts.
	_, _ = t.w.a.r.config.Run(ctx, adminCall(new(bson.Builder).String("_configsvrDrop", t.into).Finish()))
	t.finished = true
}
