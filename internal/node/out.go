package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
)

// outing is the target of an $out: a temporary collection that replaces the
// target collection at the end.
type outing struct {
	w        *world
	pass     command.Pass
	ns, tmp  schema.Namespace
	c        *catalog.Collection // the temporary one
	check    checker
	writer   *exec.Writer
	batch    *measurementBatch // where it is a time-series collection
	creates  bool              // there was no collection to replace
	finished bool
}

// Out opens the target of an $out.
func (w *world) Out(ctx context.Context, o *pipeline.Out, _ *pipeline.Run) (pipeline.Target, error) {
	ns := schema.Namespace{DB: o.Into.DB, Coll: o.Into.Coll}
	old := w.n.Catalog.Lookup(ns)
	if err := checkOut(ns, old, o); err != nil {
		return nil, err
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	pass, err := w.enter(ctx, ns.DB)
	if err != nil {
		return nil, err
	}
	t := &outing{w: w, pass: pass, ns: ns, tmp: schema.Namespace{DB: ns.DB, Coll: "tmp.agg_out." + bson.NewUUID().String()}}
	if err := t.create(ctx, old, o); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// checkOut reports whether an $out may replace old, which is nil if there is
// nothing.
func checkOut(ns schema.Namespace, old *catalog.Collection, o *pipeline.Out) error {
	switch {
	case old == nil:
		return nil
	case !o.Timeseries.IsMissing() && !old.IsTimeseries():
		return mongoerr.New(mongoerr.Code(7268700), "Cannot create a time-series collection from a non time-series collection or view: %s", ns)
	case old.IsView():
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", ns)
	case old.Capped:
		return mongoerr.New(mongoerr.Code(17152), "namespace '%s' is capped so it can't be used for $out", ns)
	}
	return nil
}

// create makes the temporary collection with the options and the indexes of
// old.
func (t *outing) create(ctx context.Context, old *catalog.Collection, o *pipeline.Out) error {
	var options bson.Doc
	var specs []bson.Doc
	if !o.Timeseries.IsMissing() {
		asked, err := schema.OutTimeseries(o.Timeseries.Doc())
		if err != nil {
			return err
		}
		if old != nil && !old.Settings.Timeseries.Same(asked.Timeseries) {
			return mongoerr.New(mongoerr.Code(7406103), "Time field, meta field, granularity and bucket parameters given to $out do not match those of the time-series collection %s", t.ns)
		}
		options = asked.Doc()
	}
	if old != nil {
		options = old.Options
		for _, ix := range old.Indexes() {
			if !ix.IsID() {
				specs = append(specs, ix.Spec)
			}
		}
	}
	if t.creates = old == nil; t.creates {
		if err := t.w.op.Auditable(); err != nil {
			return err
		}
	}
	c, err := t.w.n.Catalog.Create(ctx, t.tmp, catalog.WithTemp(options))
	if err != nil {
		return err
	}
	t.c = c
	if len(specs) > 0 {
		if _, _, err := t.w.n.Catalog.CreateIndexes(ctx, t.tmp, specs); err != nil {
			return err
		}
		t.c = t.w.n.Catalog.Lookup(t.tmp)
	}
	t.check = t.w.n.validator(ctx, t.c, t.w.bypass())
	t.writer = t.w.n.Exec.NewWriter(t.w.op.WriteConcern.Durability())
	if t.c.IsTimeseries() {
		t.batch = &measurementBatch{w: t.writer, c: t.c}
	}
	return nil
}

// Add inserts a document.
func (t *outing) Add(ctx context.Context, d bson.Doc) error {
	if t.batch != nil {
		return t.batch.add(ctx, 0, d.Clone(), t.w.n.timestamp) // which keeps it until it has enough
	}
	return t.w.n.insertOne(ctx, t.writer, t.c, d, t.check, t.w.n.timestamp)
}

// Finish replaces the old collection by the new one.
func (t *outing) Finish(ctx context.Context) error {
	if t.batch != nil {
		if err := t.batch.flush(ctx); err != nil {
			return err
		}
	}
	if err := t.writer.Commit(ctx); err != nil {
		return err
	}
	_, err := t.w.n.Catalog.Rename(ctx, t.tmp, t.ns, true)
	t.finished = err == nil
	if t.finished && t.creates {
		t.w.op.Audited("createCollection", new(bson.Builder).String("ns", t.ns.String()).Finish())
	}
	return err
}

// Close drops the temporary collection unless it was finished.
func (t *outing) Close() {
	if t.writer != nil {
		t.writer.Abort()
	}
	if t.c != nil && !t.finished {
		// The collection is removed even if the operation has been cancelled.
		if _, err := t.w.n.Catalog.Drop(context.Background(), t.tmp); err != nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
			t.w.n.Log.Error("dropping a temporary collection failed", "namespace", t.tmp.String(), "error", err)
		}
		t.finished = true
	}
	if t.w != nil {
		t.pass.Leave()
		t.w = nil
	}
}
