package stage

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Filter is a predicate with what it is evaluated against.
type Filter struct {
	f   *match.Filter
	env *match.Env
}

// NewFilter makes the filter of a node of a plan; nil lets everything pass.
func NewFilter(n match.Node, env *expr.Env) *Filter {
	if n == nil {
		return nil
	}
	return &Filter{match.FilterOf(n), &match.Env{Expr: env}}
}

// Match reports whether the predicate holds for a document.
func (f *Filter) Match(doc bson.Doc) (bool, error) {
	if f == nil {
		return true, nil
	}
	return f.f.MatchEnv(doc, f.env)
}
