package router

import (
	"bytes"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
)

// world gives the stages of the router's part access to the cluster.
type world struct {
	a *aggregation
	s *scope
}

// collation is that of the pipeline, for other collections, whose own does not count.
func (w *world) collation() bson.Doc {
	if w.s.collation == nil {
		return simpleCollation
	}
	return w.s.collation
}

// Source implements pipeline.World: stages that show the state of servers do not run here.
func (w *world) Source(_ context.Context, name string, _ bson.Value) (pipeline.Iterator, error) {
	return nil, mongoerr.New(mongoerr.Code(40324), "Unrecognized pipeline stage name: '%s'", name)
}

// Archived implements pipeline.World. Errors: 115.
func (w *world) Archived(context.Context, *pipeline.Archive, *pipeline.Run) (pipeline.Iterator, error) {
	return nil, mongoerr.New(mongoerr.CommandNotSupported, "$archive is not supported on a cluster")
}

// Read implements pipeline.World: it reads another collection, on any shard. The shards execute what
// the pipeline begins with: a filter, a search, or a stage that shows the state of the collection.
func (w *world) Read(ctx context.Context, ns pipeline.Namespace, p *pipeline.Pipeline, r *pipeline.Run) (pipeline.Iterator, error) {
	if (schema.Namespace{DB: ns.DB, Coll: ns.Coll}).Validate() != nil { // no collection has such a name
		return p.Open(&pipeline.List{}, r)
	}
	other := &aggregation{r: w.a.r, op: w.a.op, db: ns.DB, coll: ns.Coll, collation: w.collation(), shown: ns.DB + "." + ns.Coll, within: true}
	below, err := other.below(p, r)
	if err != nil {
		return nil, err
	}
	var in documentCursor
	if below.shows {
		in, err = other.showOwners(ctx, below.stages[0])
	} else {
		err = w.a.r.byRoute(ctx, w.a.op, other.shown, func(rt *route) error {
			shards, err := rt.targets(w.a.op, below.filter, nil, other.collation)
			if err == nil {
				in, err = other.openShards(ctx, rt, shards, parts{shards: below.stages, sort: below.sort})
			}
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	it, err := below.rest.Open(other.reveal(in, r), r)
	if err != nil {
		return nil, err
	}
	return watching{it, r.Env}, nil
}

// below is a pipeline over another collection, divided: what the shards execute, and the rest.
type below struct {
	stages []bson.Value
	filter bson.Doc // by which the shards are targeted
	sort   bson.Doc // by which their documents are merged; nil for none
	shows  bool     // the only stage shows the state of each owner
	rest   *pipeline.Pipeline
}

// below divides a pipeline over a's collection.
func (a *aggregation) below(p *pipeline.Pipeline, r *pipeline.Run) (*below, error) {
	b := &below{filter: bson.Empty, rest: p}
	if len(p.Stages) == 0 {
		return b, nil
	}
	meta, first := []string(nil), p.Stages[0]
	switch s := first.(type) {
	case *pipeline.Server:
		if b.shows = ofServers[s.Name()] == "owners"; b.shows {
			b.stages, b.rest = []bson.Value{stage(s.Name(), s.Arg)}, &pipeline.Pipeline{Stages: p.Stages[1:]}
		}
		return b, nil
	case *pipeline.Archive:
		return b, nil
	case *pipeline.GeoNear:
		arg, let, err := s.At(r.Env)
		if err != nil {
			return nil, err
		}
		a.let = let
		near := splitNear(nil, arg, nil)
		b.stages, b.sort, b.rest = near.shards, near.sort, &pipeline.Pipeline{Stages: p.Stages[1:]}
		if len(near.merge) > 0 {
			a.hidden = hiddenDistance
		}
		meta = []string{"geoNearDistance", "geoNearPoint"}
	default:
		b.match(p)
		if b.rest != p { // there is a $text
			meta = []string{"textScore", "score"}
		}
	}
	a.known = intersection(b.rest.Meta(), meta)
	b.stages = showKnown(b.stages, a.known)
	return b, nil
}

// match leaves to the shards the filters that the pipeline begins with, as far as they can be sent.
// The router applies them again, but for a $text, which needs an index.
func (b *below) match(p *pipeline.Pipeline) {
	var sent []match.Node
	rest := slices.Clone(p.Stages)
	text := false
	for i, s := range p.Stages {
		m, ok := s.(*pipeline.Match)
		if !ok {
			break
		}
		root := m.Filter.Root()
		if match.TextIn(root) == nil {
			if plain(root) {
				sent = append(sent, root)
			}
			continue
		}
		here, left := match.SplitBy(root, func(n match.Node) bool {
			_, ok := n.(*match.Text)
			return ok || plain(n)
		})
		if match.TextIn(left) != nil {
			continue
		}
		text, sent = true, append(sent, here)
		rest[i] = &pipeline.Match{Filter: match.FilterOf(left)}
	}
	if len(sent) == 0 {
		return
	}
	b.filter = match.Serialize(match.AndOf(sent...))
	b.stages = []bson.Value{stage("$match", bson.Document(b.filter))}
	if text {
		b.rest = &pipeline.Pipeline{Stages: rest}
	}
}

// showOwners runs a stage that shows the state of a's collection on each shard that has a part of it.
func (a *aggregation) showOwners(ctx context.Context, source bson.Value) (documentCursor, error) {
	rt, err := a.r.newestRoute(ctx, a.shown)
	if err != nil {
		return nil, err
	}
	name, _ := source.Doc().First()
	all, err := each(rt.owners(), func(shard string) (*remote, error) {
		answer, err := a.r.ask(ctx, a.op, question{shard: shard, db: a.db, body: a.body(nil, shard, []bson.Value{source}), reads: true})
		if err != nil {
			return nil, err
		}
		m, err := a.r.newRemote(a.op, shard, answer)
		if err == nil {
			m.label = labels[name]
		}
		return m, err
	})
	if err != nil {
		closeAll(all)
		return nil, err
	}
	return &labelled{concatenation{all: all}, nil}, nil
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
	ctx       context.Context
	a         *aggregation
	collation bson.Doc // of the pipeline, normalised; nil for the simple one
}

// has reports whether a view, an index or a collection has the collation of the pipeline.
func (n *namespaces) has(of bson.Doc) (bool, error) {
	spec := document(of.Lookup("collation"))
	if spec.IsEmpty() {
		return n.collation == nil, nil
	}
	c, err := schema.ParseCollation(spec)
	return bytes.Equal(specOf(c), n.collation), err
}

// specOf is the normalised specification of a collation, nil for the simple one.
func specOf(c *schema.Collation) bson.Doc {
	if c == nil {
		return nil
	}
	return c.Spec
}

// Resolve implements pipeline.Namespaces: it asks the primary shard whether a namespace is
// a view. Error 167 for one with another collation than the pipeline's.
func (n *namespaces) Resolve(ns pipeline.Namespace) (pipeline.Namespace, []bson.Value, error) {
	var list []bson.Value
	named := ns
	for range maxViews {
		view, err := n.a.r.view(n.ctx, n.a.op, ns.DB, ns.Coll)
		if err != nil {
			return ns, nil, err
		}
		if view == nil {
			return ns, list, nil
		}
		if has, err := n.has(view); err != nil {
			return ns, nil, err
		} else if !has {
			return ns, nil, mongoerr.New(mongoerr.OptionNotSupportedOnView, "Cannot override a view's default collation: %s", named)
		}
		ns.Coll = view.Lookup("viewOn").Str()
		list = append(view.Lookup("pipeline").Doc().Slice(), list...)
	}
	return ns, nil, mongoerr.New(mongoerr.ViewDepthLimitExceeded, "View depth limit exceeded; maximum depth is %d", maxViews)
}

// view is what defines a view, {viewOn, pipeline}; nil if there is no view of that name.
func (r *Router) view(ctx context.Context, op *command.Op, db, coll string) (bson.Doc, error) {
	found, err := r.listed(ctx, op, db, coll)
	if found == nil || err != nil {
		return nil, err
	}
	options := document(found.Lookup("options"))
	if options.Lookup("viewOn").Type != bson.TypeString || options.Lookup("pipeline").Type != bson.TypeArray {
		return nil, nil
	}
	return options, nil
}

// listed is what the primary shard's listCollections says of a collection that is not sharded; nil if
// there is none of that name.
func (r *Router) listed(ctx context.Context, op *command.Op, db, coll string) (bson.Doc, error) {
	rt, err := r.route(ctx, db+"."+coll)
	if err != nil || rt.chunks != nil || rt.primary == "" {
		return nil, err
	}
	filter := new(bson.Builder).OpenDoc("filter").String("name", coll).Close().Finish()
	answer, err := r.ask(ctx, op, question{shard: rt.primary, db: db, body: new(bson.Builder).Int32("listCollections", 1).Fields(filter).Finish(), reads: true, outside: true})
	if err != nil {
		return nil, err
	}
	if found := documents(document(answer.Reply.Lookup("cursor")).Lookup("firstBatch")); len(found) > 0 {
		return found[0], nil
	}
	return nil, nil
}

// maxViews bounds views over views.
const maxViews = 20

// MergeTarget implements pipeline.Namespaces: a $merge needs a collection that is no time series, and
// a unique index on its fields with the collation of the pipeline.
func (n *namespaces) MergeTarget(ns pipeline.Namespace, on []string) (nullable bool, err error) {
	target, err := n.a.r.listed(n.ctx, n.a.op, ns.DB, ns.Coll)
	if err != nil {
		return false, err
	}
	if kind := target.Lookup("type"); kind.Type == bson.TypeString && kind.Str() != "collection" {
		return false, mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", ns)
	}
	missing := mongoerr.New(mongoerr.Code(51183), "Cannot find index to verify that join fields will be unique")
	rt, err := n.a.r.route(n.ctx, ns.DB+"."+ns.Coll)
	if err != nil {
		return false, err
	}
	if len(on) == 1 && on[0] == "_id" {
		same := true
		if rt.chunks != nil {
			same = bytes.Equal(specOf(rt.collation), n.collation)
		} else if target != nil {
			same, err = n.has(document(target.Lookup("options")))
		}
		if err == nil && !same {
			err = missing
		}
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
		if !ix.Lookup("unique").Truthy() || ix.Has("partialFilterExpression") || !sameFields(document(ix.Lookup("key")), on) {
			continue
		}
		if has, err := n.has(ix); has || err != nil {
			return !ix.Lookup("sparse").Truthy(), err
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
