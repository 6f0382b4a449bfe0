package node

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// tallies count by name. The names are fixed when it is made.
type tallies map[string]*atomic.Int64

func newTallies(names []string) tallies {
	t := make(tallies, len(names))
	for _, name := range names {
		t[name] = new(atomic.Int64)
	}
	return t
}

// count counts a name that there is.
func (t tallies) count(name string) {
	if n := t[name]; n != nil {
		n.Add(1)
	}
}

func (t tallies) write(b *bson.Builder) {
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.Int64(name, t[name].Load())
	}
}

// operatorCounts count how often clients use which stage and operator: the
// documents operatorCounters and aggStageCounters of serverStatus's metrics.
// What they traverse was parsed before, so it is no deeper than documents are.
type operatorCounts struct {
	stages, match, expressions, groups, windows tallies
}

func newOperatorCounts(s *command.Status) *operatorCounts {
	c := &operatorCounts{
		stages: newTallies(pipeline.Names()), match: newTallies(match.Operators()), expressions: newTallies(expr.Operators()),
		groups: newTallies(expr.Accumulators()), windows: newTallies(expr.WindowFunctions()),
	}
	s.Metric("aggStageCounters", c.stages.write)
	s.Metric("operatorCounters.expressions", c.expressions.write)
	s.Metric("operatorCounters.groupAccumulators", c.groups.write)
	s.Metric("operatorCounters.match", c.match.write)
	s.Metric("operatorCounters.windowAccumulators", c.windows.write)
	return c
}

// filter counts the operators of a filter.
func (c *operatorCounts) filter(d bson.Doc) {
	for name, v := range d.All() {
		if !strings.HasPrefix(name, "$") {
			c.predicate(v)
			continue
		}
		c.match.count(name)
		switch {
		case name == "$expr":
			c.expression(v)
		case v.Type == bson.TypeArray: // $and, $or, $nor
			for e := range v.Doc().Values() {
				if e.Type == bson.TypeDocument {
					c.filter(e.Doc())
				}
			}
		}
	}
}

// predicate counts the operators in a condition on a field.
func (c *operatorCounts) predicate(v bson.Value) {
	if v.Type != bson.TypeDocument {
		return
	}
	if name, _ := v.Doc().First(); !strings.HasPrefix(name, "$") {
		return
	}
	for name, arg := range v.Doc().All() {
		c.match.count(name)
		switch {
		case arg.Type != bson.TypeDocument:
		case name == "$not":
			c.predicate(arg)
		case name == "$elemMatch":
			c.filter(arg.Doc())
		}
	}
}

// pipeline counts the stages of a pipeline, and what is in them.
func (c *operatorCounts) pipeline(list []bson.Value) {
	for _, s := range list {
		if s.Type != bson.TypeDocument {
			continue
		}
		name, arg := s.Doc().First()
		if name == pipeline.StatesStage && arg.Type == bson.TypeDocument {
			name, arg = "$group", arg.Doc().Lookup("group")
		}
		c.stages.count(name)
		switch {
		case arg.Type != bson.TypeDocument:
			c.expression(arg)
		case name == "$match":
			c.filter(arg.Doc())
		case name == "$facet":
			for p := range arg.Doc().Values() {
				if p.Type == bson.TypeArray {
					c.pipeline(p.Doc().Slice())
				}
			}
		case name == "$group":
			c.accumulators(c.groups, arg.Doc())
		case name == "$setWindowFields":
			c.stage(c.windows, arg.Doc())
		default:
			c.stage(c.groups, arg.Doc())
		}
	}
}

// stage counts what is in the argument of a stage: a pipeline, fields that
// accumulators make, expressions.
func (c *operatorCounts) stage(of tallies, d bson.Doc) {
	for name, v := range d.All() {
		switch {
		case name == "pipeline" && v.Type == bson.TypeArray:
			c.pipeline(v.Doc().Slice())
		case name == "output" && v.Type == bson.TypeDocument:
			c.accumulators(of, v.Doc())
		default:
			c.expression(v)
		}
	}
}

// accumulators counts those of fields, and their arguments.
func (c *operatorCounts) accumulators(of tallies, fields bson.Doc) {
	for name, v := range fields.All() {
		if name == "_id" || v.Type != bson.TypeDocument {
			c.expression(v)
			continue
		}
		for op, arg := range v.Doc().All() {
			of.count(op)
			c.expression(arg)
		}
	}
}

// expression counts the operators anywhere in an expression.
func (c *operatorCounts) expression(v bson.Value) {
	if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
		return
	}
	for name, arg := range v.Doc().All() {
		if v.Type == bson.TypeDocument && strings.HasPrefix(name, "$") {
			c.expressions.count(name)
			if name == "$literal" {
				continue
			}
		}
		c.expression(arg)
	}
}

// updateCounts count the updates of a command that are pipelines, and those with
// arrayFilters.
type updateCounts struct{ pipelines, arrayFilters atomic.Int64 }

func (c *updateCounts) note(u bson.Value, filters bool) {
	if u.Type == bson.TypeArray {
		c.pipelines.Add(1)
	}
	if filters {
		c.arrayFilters.Add(1)
	}
}

func (c *updateCounts) write(b *bson.Builder) {
	b.Int64("arrayFilters", c.arrayFilters.Load()).Int64("pipeline", c.pipelines.Load())
}

// validatorCounts count the validators that a command was given.
type validatorCounts struct{ total, failed, schemas atomic.Int64 }

// watch returns run, with its validators counted.
func (c *validatorCounts) watch(run command.Handler) command.Handler {
	return func(ctx context.Context, op *command.Op) error {
		err := run(ctx, op)
		v := op.Args.Doc("validator")
		if v.IsEmpty() {
			return err
		}
		c.total.Add(1)
		if err != nil {
			c.failed.Add(1)
		}
		if v.Has("$jsonSchema") {
			c.schemas.Add(1)
		}
		return err
	}
}

func (c *validatorCounts) write(b *bson.Builder) {
	b.OpenDoc("validator").Int64("failed", c.failed.Load()).Int64("jsonSchema", c.schemas.Load()).Int64("total", c.total.Load()).Close()
}
