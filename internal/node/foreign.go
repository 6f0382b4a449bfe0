package node

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// namespaces is what parsing a pipeline needs of the catalog.
type namespaces struct {
	n     *Node
	scope scope
}

// Resolve follows views down to a collection.
func (s *namespaces) Resolve(ns pipeline.Namespace) (pipeline.Namespace, []bson.Value, error) {
	base, list, _, err := s.n.resolveView(schema.Namespace{DB: ns.DB, Coll: ns.Coll}, nil)
	return pipeline.Namespace{DB: base.DB, Coll: base.Coll}, list, err
}

// MergeTarget finds the unique index that a $merge asks for.
func (s *namespaces) MergeTarget(ns pipeline.Namespace, on []string) (nullable bool, err error) {
	missing := mongoerr.New(mongoerr.Code(51183), "Cannot find index to verify that join fields will be unique")
	c := s.n.Catalog.Lookup(schema.Namespace{DB: ns.DB, Coll: ns.Coll})
	if c == nil {
		if len(on) == 1 && on[0] == "_id" {
			return false, nil
		}
		return false, missing
	}
	if c.SeenAsView() {
		return false, mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", ns)
	}
	for _, ix := range c.Indexes() {
		if (ix.Unique || ix.IsID()) && ix.Ready && ix.Filter == nil && sameFields(ix, on) && string(ix.Collation) == string(s.scope.collation) {
			return !ix.Sparse, nil
		}
	}
	return false, missing
}

// sameFields reports whether the fields of an index are those of on.
func sameFields(ix *catalog.Index, on []string) bool {
	if len(ix.Parts) != len(on) {
		return false
	}
	for _, p := range ix.Parts {
		if p.Plugin != "" || !slices.Contains(on, p.Path) {
			return false
		}
	}
	return true
}

// Read runs a pipeline over a collection, for a stage of the world's own
// pipeline.
func (w *world) Read(ctx context.Context, ns pipeline.Namespace, p *pipeline.Pipeline, r *pipeline.Run) (pipeline.Iterator, error) {
	f, q, err := w.over(ns, r)
	if err != nil {
		return nil, err
	}
	return w.n.Exec.Read(ctx, f.coll, q, p, r)
}

// Explain explains what Read runs; see exec.Executor.ExplainAggregate.
func (w *world) Explain(ctx context.Context, ns pipeline.Namespace, p *pipeline.Pipeline, r *pipeline.Run, v exec.Verbosity, b *bson.Builder) error {
	f, q, err := w.over(ns, r)
	if err != nil {
		return err
	}
	return w.n.Exec.ExplainAggregate(ctx, f.coll, f.ns.String(), q, p, r, v, b)
}

// over returns the world of a run over another collection, and the query of the
// reading.
func (w *world) over(ns pipeline.Namespace, r *pipeline.Run) (*world, *exec.Query, error) {
	f := *w
	f.ns = schema.Namespace{DB: ns.DB, Coll: ns.Coll}
	if f.coll = w.n.lookup(w.op, f.ns); f.coll == nil {
		var err error
		if f.coll, err = w.n.sealedBuckets(f.ns); err != nil {
			return nil, nil, err
		}
	}
	var err error
	if f.coll, err = w.n.lookupAt(w.query.At, f.ns, f.coll); err != nil {
		return nil, nil, err
	}
	r.World = &f
	q := &exec.Query{Query: plan.Query{Env: r.Env}, AllowDiskUse: w.query.AllowDiskUse, At: w.query.At}
	q.Collation, q.Collator, q.NoScan = w.query.Collation, w.query.Collator, w.query.NoScan
	q.Preferred = w.query.settings.preferred(f.ns)
	if q.Held = w.n.heldForeign(w.op, f.ns); q.Held != nil && f.coll == nil { // there is no state to hold
		return &f, q, q.Held()
	}
	return &f, q, nil
}
