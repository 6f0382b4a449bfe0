package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// world gives the stages of the router's part access to the cluster.
type world struct {
	a *aggregation
	s *scope
}

// Source implements pipeline.World: stages that show the state of servers do not run here.
func (w *world) Source(_ context.Context, name string, _ bson.Value) (pipeline.Iterator, error) {
	return nil, mongoerr.New(mongoerr.Code(40324), "Unrecognized pipeline stage name: '%s'", name)
}

// Read implements pipeline.World: it reads another collection, on any shard. The shards
// apply the filter that the pipeline begins with.
func (w *world) Read(ctx context.Context, ns pipeline.Namespace, p *pipeline.Pipeline, r *pipeline.Run) (pipeline.Iterator, error) {
	other := &aggregation{r: w.a.r, op: w.a.op, db: ns.DB, coll: ns.Coll, collation: w.a.collation, shown: ns.DB + "." + ns.Coll}
	filter := bson.Empty
	if len(p.Stages) > 0 {
		if _, ok := p.Stages[0].(*pipeline.GeoNear); ok {
			return nil, mongoerr.New(mongoerr.CommandNotSupported, "$geoNear on a collection that is not on the shard of the others is not supported")
		}
		if m, ok := p.Stages[0].(*pipeline.Match); ok && plain(m.Filter.Root()) {
			filter = m.Serialize().Doc()
			other.list = []bson.Value{stage("$match", bson.Document(filter))}
		}
	}
	var in documentCursor
	err := w.a.r.byRoute(ctx, w.a.op, ns.DB+"."+ns.Coll, func(rt *route) error {
		shards, err := rt.targets(w.a.op, filter, nil, w.a.collation)
		if err != nil {
			return err
		}
		in, err = other.openShards(ctx, rt, shards, parts{shards: other.list})
		return err
	})
	if err != nil {
		return nil, err
	}
	it, err := p.Open(in, r)
	if err != nil {
		return nil, err
	}
	return watching{it, r.Env}, nil
}

// plain reports whether a filter can be sent to shards as text: it has no variables, no
// expressions, and no values that formatting would change.
func plain(n match.Node) bool {
	switch n := n.(type) {
	case *match.And:
		for _, c := range n.Children {
			if !plain(c) {
				return false
			}
		}
		return true
	case *match.Or:
		for _, c := range n.Children {
			if !plain(c) {
				return false
			}
		}
		return true
	case *match.Compare, *match.In:
		return true
	}
	return false
}

// Merge implements pipeline.World.
func (w *world) Merge(ctx context.Context, m *pipeline.Merge, r *pipeline.Run) (pipeline.Target, error) {
	return w.newMerge(m, r)
}

// Out implements pipeline.World.
func (w *world) Out(ctx context.Context, o *pipeline.Out, _ *pipeline.Run) (pipeline.Target, error) {
	return w.newOut(ctx, o)
}

// namespaces answers the questions of the pipeline parser about the cluster.
type namespaces struct {
	ctx context.Context
	a   *aggregation
}

// Resolve implements pipeline.Namespaces: it asks the primary shard whether a namespace is
// a view.
func (n *namespaces) Resolve(ns pipeline.Namespace) (pipeline.Namespace, []bson.Value, error) {
	var list []bson.Value
	for range maxViews {
		view, err := n.a.r.view(n.ctx, n.a.op, ns.DB, ns.Coll)
		if err != nil {
			return ns, nil, err
		}
		if view == nil {
			return ns, list, nil
		}
		ns.Coll = view.Lookup("viewOn").Str()
		list = append(view.Lookup("pipeline").Doc().Slice(), list...)
	}
	return ns, nil, mongoerr.New(mongoerr.ViewDepthLimitExceeded, "View depth limit exceeded; maximum depth is %d", maxViews)
}

// view is what defines a view, {viewOn, pipeline}; nil if there is no view of that name.
func (r *Router) view(ctx context.Context, op *command.Op, db, coll string) (bson.Doc, error) {
	rt, err := r.route(ctx, db+"."+coll)
	if err != nil || rt.chunks != nil || rt.primary == "" {
		return nil, err
	}
	filter := new(bson.Builder).OpenDoc("filter").String("name", coll).String("type", "view").Close().Finish()
	answer, err := r.ask(ctx, op, question{shard: rt.primary, db: db, body: new(bson.Builder).Int32("listCollections", 1).Fields(filter).Finish(), reads: true, outside: true})
	if err != nil {
		return nil, err
	}
	found := documents(document(answer.Reply.Lookup("cursor")).Lookup("firstBatch"))
	if len(found) == 0 {
		return nil, nil
	}
	options := document(found[0].Lookup("options"))
	if options.Lookup("viewOn").Type != bson.TypeString || options.Lookup("pipeline").Type != bson.TypeArray {
		return nil, nil
	}
	return options, nil
}

// maxViews bounds views over views.
const maxViews = 20

// MergeTarget implements pipeline.Namespaces: a $merge needs a unique index on its fields.
func (n *namespaces) MergeTarget(ns pipeline.Namespace, on []string) (nullable bool, err error) {
	if len(on) == 1 && on[0] == "_id" {
		return false, nil
	}
	missing := mongoerr.New(mongoerr.Code(51183), "Cannot find index to verify that join fields will be unique")
	rt, err := n.a.r.route(n.ctx, ns.DB+"."+ns.Coll)
	if err != nil {
		return false, err
	}
	if rt.primary == "" {
		return false, missing
	}
	answer, err := n.a.r.ask(n.ctx, n.a.op, question{shard: rt.owners()[0], db: ns.DB, body: new(bson.Builder).String("listIndexes", ns.Coll).Finish(), reads: true})
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return false, missing
	}
	if err != nil {
		return false, err
	}
	for _, ix := range documents(document(answer.Reply.Lookup("cursor")).Lookup("firstBatch")) {
		if ix.Lookup("unique").Truthy() && !ix.Has("partialFilterExpression") && sameFields(document(ix.Lookup("key")), on) {
			return !ix.Lookup("sparse").Truthy(), nil
		}
	}
	return false, missing
}

// sameFields reports whether an index has exactly these fields.
func sameFields(key bson.Doc, on []string) bool {
	n := 0
	for name := range key.All() {
		found := false
		for _, o := range on {
			found = found || o == name
		}
		if !found {
			return false
		}
		n++
	}
	return n == len(on)
}
