package pipeline

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// maxSubPipelines is how deep pipelines may be nested
// (kMaxSubPipelineViewDepth).
const maxSubPipelines = 20

// Namespace names a collection. Without Coll it is the database.
type Namespace struct{ DB, Coll string }

// String is the full name.
func (n Namespace) String() string {
	if n.Coll == "" {
		return n.DB
	}
	return n.DB + "." + n.Coll
}

// Namespaces is what parsing must know of the collections that a pipeline
// names.
type Namespaces interface {
	// Resolve follows views from ns down to a collection, and returns that and the
	// pipelines of the views, lowest first. Errors: 73 for a name that is none.
	Resolve(ns Namespace) (Namespace, []bson.Value, error)
	// MergeTarget checks the target of a $merge: that it may be written to and
	// has a unique index on exactly those fields, under the pipeline's collation.
	// nullable says that this index holds documents without a value.
	MergeTarget(ns Namespace, on []string) (nullable bool, err error)
}

// Foreign is a pipeline over another collection than that of the pipeline
// around it.
type Foreign struct {
	NS       Namespace // below all views; without Coll the pipeline has a source
	Pipeline *Pipeline
	// joinAt is where a join's own filter is inserted into the pipeline: after the
	// stages of the views, or after the source.
	joinAt int
	outer  int // variables in scope around it
	// fault is the error of optimizing the pipeline, which is returned when it is first
	// run.
	fault error
}

// subPipeline parses the pipeline of a stage over another collection, and prepends
// those of views. vars are the variables that the stage adds.
func (p *parsing) subPipeline(ns Namespace, list []bson.Value, vars []string) (*Foreign, error) {
	if p.depth+1 > maxSubPipelines {
		return nil, mongoerr.New(mongoerr.MaxSubPipelineDepthExceeded, "Maximum number of nested sub-pipelines exceeded. Limit is %d", maxSubPipelines)
	}
	f := &Foreign{NS: ns, outer: len(p.Expr.Vars)}
	if ns.Coll != "" && p.Namespaces != nil {
		base, above, err := p.Namespaces.Resolve(ns)
		if err != nil {
			return nil, err
		}
		f.NS, f.joinAt = base, len(above)
		list = append(above, list...)
	}
	opts := p.Options.with(vars)
	opts.Collectionless, opts.DB = ns.Coll == "", f.NS.DB
	opts.NS, opts.Above, opts.Meta = ns, f.joinAt, nil
	opts.inside, opts.depth = p.name, p.depth+1
	var err error
	var faults *expr.Faults
	if f.Pipeline, faults, err = parse(list, opts); err != nil {
		return nil, err
	}
	f.fault = faults.Err("pipeline")
	switch {
	case ns.Coll == "":
		f.joinAt = 1
	case f.joinAt == 0:
		f.Pipeline = f.Pipeline.Optimize()
	}
	return f, nil
}

// with is the options for a pipeline that sees further variables.
func (o *Options) with(vars []string) *Options {
	c := *o
	e := *o.Expr
	e.Vars = append(append([]string(nil), e.Vars...), vars...)
	c.Expr = &e
	if o.Match != nil {
		m := *o.Match
		m.Expr = &e
		c.Match = &m
	}
	return &c
}

// open runs the pipeline. vars are the values of the variables that the stage
// adds, join the filter of the join, or nil.
func (f *Foreign) open(ctx context.Context, r *Run, vars []bson.Value, join match.Node) (Iterator, error) {
	return f.openIn(ctx, r.within(f.outer, vars), join)
}

// openIn is open in a run that has the variables.
func (f *Foreign) openIn(ctx context.Context, sub *Run, join match.Node) (Iterator, error) {
	if f.fault != nil {
		return nil, f.fault
	}
	p := f.Pipeline
	if join != nil {
		stages := make([]Stage, 0, len(p.Stages)+1)
		stages = append(stages, p.Stages[:f.joinAt]...)
		stages = append(stages, &Match{match.FilterOf(join)})
		p = &Pipeline{append(stages, p.Stages[f.joinAt:]...)}
		if f.joinAt > 0 {
			p = p.Optimize()
		}
	}
	if f.NS.Coll == "" {
		return p.Open(nil, sub)
	}
	return sub.World.Read(ctx, f.NS, p, sub)
}

// within returns the run of a nested pipeline: the first outer variables, followed by
// vars.
func (r *Run) within(outer int, vars []bson.Value) *Run {
	all := make([]bson.Value, 0, outer+len(vars))
	for i := range outer {
		all = append(all, r.Env.Var(i))
	}
	env := expr.NewEnv(r.Env.Now, append(all, vars...)...)
	env.ClusterTime, env.Collator = r.Env.ClusterTime, r.Env.Collator
	env.UserRoles, env.SearchMeta = r.Env.UserRoles, r.Env.SearchMeta
	sub := &Run{Env: env, SpillDir: r.SpillDir, World: r.World, Inside: r.Inside}
	env.Meta, env.Memory = sub.meta, r.Env.Memory
	env.Watch(r.Env.Context())
	return sub
}

// matchOptions are those of a filter inside a stage.
func (p *parsing) matchOptions() *match.Options {
	if p.Match != nil {
		return p.Match
	}
	return &match.Options{Collator: p.Collator, Expr: p.Expr}
}
