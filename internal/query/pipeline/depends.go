package pipeline

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// exprsOf adds the dependencies of a stage's expressions to d: paths of the document,
// variables and metadata; nested pipelines add variables only.
func exprsOf(s Stage, d *expr.Deps) {
	switch s := s.(type) {
	case *Match:
		m := match.DependsOn(s.Filter.Root())
		for _, path := range m.Paths {
			d.AddPath(path)
		}
		d.Whole, d.Random = d.Whole || m.Whole, d.Random || m.Random
		d.Vars = append(d.Vars, m.Vars...)
	case *Shape:
		s.Spec.Deps(d)
	case *Group:
		d.Add(s.ID)
		addFields(d, s.Fields)
	case *BucketAuto:
		d.Add(s.by)
		addFields(d, s.fields)
	case *SetWindowFields:
		s.deps(d)
	case *sequence:
		for _, in := range s.stages {
			exprsOf(in, d)
		}
		d.Whole = true
	case *Redact:
		d.Add(s.decide)
		d.Whole = true
	case *Documents:
		d.Add(s.list)
	case *Sort:
		for _, part := range s.Pattern.Parts {
			if part.Meta == "" {
				d.AddPath(part.Path)
			} else {
				d.Meta = append(d.Meta, part.Meta)
			}
		}
	case *Unwind:
		d.AddPath(s.Path)
	case *Lookup:
		lookupDeps(s, d)
	case *GraphLookup:
		d.Add(s.start)
		if s.restrict != nil {
			d.Vars = append(d.Vars, match.DependsOn(s.restrict).Vars...)
		}
	case *UnionWith:
		addVars(d, s.from.Pipeline)
	case *Facet:
		for _, p := range s.pipelines {
			addVars(d, p)
		}
		d.Whole = true
	case *GeoNear:
		s.deps(d)
	case *Merge:
		if s.Let != nil {
			for _, e := range s.Let.Exprs() {
				d.Add(e)
			}
		}
		d.Whole = true
	case *Limit, *Skip, *Count, *Sample, *Search, *Server, *ChangeStream:
	default:
		d.Whole = true
	}
}

func lookupDeps(l *Lookup, d *expr.Deps) {
	if l.local != nil {
		d.AddPath(l.arg.Doc().Lookup("localField").Str())
	}
	if l.let != nil {
		for _, e := range l.let.Exprs() {
			d.Add(e)
		}
	}
	addVars(d, l.from.Pipeline)
	if l.Unwind != nil && l.Unwind.Index != "" {
		d.AddPath(l.Unwind.Index)
	}
}

func addFields(d *expr.Deps, fields []GroupField) {
	for _, f := range fields {
		for _, e := range f.Spec.Exprs() {
			d.Add(e)
		}
	}
}

// addVars adds the variables that a nested pipeline reads, and whether it is random.
func addVars(d *expr.Deps, p *Pipeline) {
	var in expr.Deps
	for _, s := range p.Stages {
		exprsOf(s, &in)
		if _, ok := s.(*Sample); ok {
			in.Random = true
		}
	}
	d.Vars, d.Random = append(d.Vars, in.Vars...), d.Random || in.Random
}

// reads reports whether the pipeline reads one of the variables, or is random, so that
// its results differ from run to run.
func (p *Pipeline) reads(vars []string) bool {
	var d expr.Deps
	addVars(&d, p)
	for _, v := range vars {
		if slices.Contains(d.Vars, v) {
			return true
		}
	}
	return d.Random
}
