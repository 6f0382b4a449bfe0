package router

import (
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// scope is the context of a statement's expressions: variables, time and collation.
type scope struct {
	env       *expr.Env
	expr      *expr.Options
	match     *match.Options
	collation bson.Doc // normalised; nil for the simple one
	collator  bson.Collator
}

// newScope reads `let` and `collation` of a statement. The default is the collection's
// collation. Errors: those of both.
func newScope(op *command.Op, rt *route, let, collation bson.Doc) (*scope, error) {
	start := op.Start
	if start.IsZero() {
		start = time.Now()
	}
	ending := op.Ending()
	s := &scope{env: expr.NewEnv(op.Dispatcher.Wall.At(start).UnixMilli()), expr: &expr.Options{Op: &ending}}
	parsed := rt.collation
	if !collation.IsEmpty() {
		var err error
		if parsed, err = schema.ParseCollation(collation); err != nil {
			return nil, err
		}
	}
	if parsed != nil {
		s.collation, s.collator = parsed.Spec, parsed.Collator
	}
	s.env.Collator, s.expr.Collator = s.collator, s.collator
	if !let.IsEmpty() {
		names, values, err := expr.CommandLet(let, s.collator)
		if err != nil {
			return nil, err
		}
		s.expr.Vars, s.expr.Values = names, values
		for i, v := range values {
			s.env.SetVar(i, v)
		}
	}
	s.match = &match.Options{Collator: s.collator, Expr: s.expr}
	return s, nil
}

// query parses a filter for targeting.
func (s *scope) query(filter bson.Doc) (*plan.Query, error) {
	if filter == nil {
		filter = bson.Empty
	}
	f, err := match.Parse(filter, s.match)
	if err != nil {
		return nil, err
	}
	return &plan.Query{Filter: f, Env: s.env, Collation: s.collation, Collator: s.collator}, nil
}

// targets returns the shards that may have documents matching a filter.
func (rt *route) targets(op *command.Op, filter, let, collation bson.Doc) ([]string, error) {
	if !rt.isSharded() {
		return rt.owners(), nil
	}
	s, err := newScope(op, rt, let, collation)
	if err != nil {
		return nil, err
	}
	q, err := s.query(filter)
	if needsJavaScript(err) {
		return rt.owners(), nil
	}
	if err != nil {
		return nil, err
	}
	if q, err = rt.overBuckets(q); err != nil {
		return nil, err
	}
	return rt.chunks.Target(q).Shards, nil
}

// overBuckets returns what a query on measurements says of buckets, by which a time series
// is targeted; any other query as it is.
func (rt *route) overBuckets(q *plan.Query) (*plan.Query, error) {
	if rt.timeseries == nil {
		return q, nil
	}
	return plan.BucketQuery(q, rt.timeseries)
}
