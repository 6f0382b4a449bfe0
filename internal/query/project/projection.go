package project

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Options is the surroundings of a projection. A nil *Options is the default.
type Options struct {
	// Expr is how expressions inside the projection are parsed.
	Expr *expr.Options
	// Match is how the conditions of $elemMatch are parsed.
	Match *match.Options
	// Filter is the find's filter, which the positional operator ("a.$") asks
	// for the element that matched. Nil is a filter without conditions.
	Filter *match.Filter
}

// Kind says what a projection does with the fields it does not name.
type Kind uint8

const (
	// Inclusion leaves out what is not named.
	Inclusion Kind = iota
	// Exclusion keeps what is not named.
	Exclusion
	// AddFields keeps what is not named and computes what is.
	AddFields
	// ReplaceRoot makes the document from one expression.
	ReplaceRoot
)

// Projection is a parsed specification. It is immutable and safe for
// concurrent use; each goroutine brings its own expr.Env.
type Projection struct {
	kind   Kind
	stage  string // "$project", "$addFields" or "$replaceRoot"; empty for a find's
	spec   bson.Doc
	root   *node         // nil for ReplaceRoot
	filter *match.Filter // of the find, where the positional operator is used

	positional bool
	newRoot    expr.Expr // of ReplaceRoot
	what       string    // of ReplaceRoot: what its error calls the expression
}

// Kind says what becomes of the fields that are not named.
func (p *Projection) Kind() Kind { return p.kind }

// IsInclusion reports whether only named fields survive, so that Fields tells all
// a document needs to have.
func (p *Projection) IsInclusion() bool { return p.kind == Inclusion }

// IsSimple reports whether the projection only keeps or only drops top-level
// fields, without expressions or dotted paths (PROJECTION_SIMPLE of explain).
func (p *Projection) IsSimple() bool {
	if p.kind != Inclusion && p.kind != Exclusion {
		return false
	}
	for _, f := range p.root.fields {
		if f.do != keep && f.do != drop || f.slice != nil || f.positional {
			return false
		}
	}
	return true
}

// NeedsFilterMatch reports whether the projection has a positional operator, and
// so asks the find's filter about each document.
func (p *Projection) NeedsFilterMatch() bool { return p.positional }

// Apply returns the document that the projection makes of doc, in memory of
// its own. env carries variables and metadata; its root is set to doc. A
// projection without expressions may be applied with a nil env.
func (p *Projection) Apply(env *expr.Env, doc bson.Doc) (bson.Doc, error) {
	return p.Append(make([]byte, 0, p.estimate(doc)), env, doc)
}

// estimate guesses the size of the result so that most results need one
// allocation.
func (p *Projection) estimate(doc bson.Doc) int {
	switch {
	case p.kind == ReplaceRoot:
		return 0
	case p.root.computes:
		return len(doc) + len(p.spec)
	case p.kind != Inclusion || p.root.descends:
		return len(doc)
	}
	size := 5
	for it := doc.Iter(); it.Next(); {
		if p.root.find(it.Key) >= 0 {
			size += 2 + len(it.Key) + len(it.Value.Data)
		}
	}
	return size
}
