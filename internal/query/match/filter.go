package match

import (
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Filter is a parsed filter. It is immutable and safe for concurrent use.
type Filter struct {
	root    Node
	filter  bson.Doc
	opts    Options
	hasExpr bool
}

// Root is the normalised tree: nested Ands and Ors flattened, siblings in the
// normal order, an In of one value a Compare, an Or of equalities on one path
// an In. A filter that matches everything is an And without children.
func (f *Filter) Root() Node { return f.root }

// Size is the length of the filter as it was parsed, in bytes; 0 for no filter.
func (f *Filter) Size() int {
	if f == nil {
		return 0
	}
	return len(f.filter)
}

// FilterOf makes a filter of a tree or a part of one, already in normal form:
// what a plan leaves to check of a query, or a stage takes over from another.
func FilterOf(n Node) *Filter { return &Filter{root: n} }

// Text is the filter as written, or the normal form of one made by FilterOf.
func (f *Filter) Text() bson.Doc {
	if f.filter == nil {
		return Serialize(f.root)
	}
	return f.filter
}

// Match reports whether the filter accepts doc.
func (f *Filter) Match(doc bson.Doc) (bool, error) { return f.MatchEnv(doc, nil) }

// MatchEnv is Match for a filter with $expr, whose variables env holds.
func (f *Filter) MatchEnv(doc bson.Doc, env *Env) (bool, error) {
	if env == nil && f.hasExpr {
		env = f.newEnv()
	}
	return f.root.match(subject{bson.Document(doc), document}, env)
}

// newEnv is the environment for $expr if the caller has none: the time is
// now and no variable is bound.
func (f *Filter) newEnv() *Env {
	e := expr.NewEnv(time.Now().UnixMilli())
	e.Collator = f.opts.Collator
	return &Env{Expr: e}
}

// MatchArrayIndex is Match, and tells which element of an array made the
// filter match: the name ("0", "1" …) that the positional $ of an update or a
// projection stands for; empty if no array was traversed.
func (f *Filter) MatchArrayIndex(doc bson.Doc, env *Env) (ok bool, index string, err error) {
	if env == nil {
		env = f.newEnv()
	}
	e := *env
	e.recording, e.index = true, ""
	ok, err = f.root.match(subject{bson.Document(doc), document}, &e)
	if !ok {
		e.index = ""
	}
	return ok, strings.Clone(e.index), err // it shares the bytes of doc
}

// MatchValue matches v as if it were the value of the field that all paths of
// the filter start with: {i: {$gt: 5}} and {"i.x": 1} of an array filter, or
// the condition of a $pull under an empty name.
func (f *Filter) MatchValue(v bson.Value, env *Env) (bool, error) {
	return f.root.match(subject{v, field}, env)
}
