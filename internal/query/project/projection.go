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
	// Exclusion keeps what is not named and never computes.
	Exclusion
	// AddFields keeps what is not named and computes what is.
	AddFields
	// ReplaceRoot makes the document from one expression.
	ReplaceRoot
)

// Projection is a parsed specification. It is immutable and safe for
// concurrent use; each goroutine brings its own expr.Env.
type Projection struct {
	kind Kind
}

// Kind says what becomes of the fields that are not named.
func (p *Projection) Kind() Kind { return p.kind }

// IsInclusion says whether only named fields survive, so that Fields tells all
// a document needs to have.
func (p *Projection) IsInclusion() bool { return p.kind == Inclusion }

// IsSimple says whether the projection only keeps or only drops top-level
// fields, without expressions or dotted paths (PROJECTION_SIMPLE of explain).
func (p *Projection) IsSimple() bool { return false }

// Fields returns the dotted paths that the result depends on, in the order of
// the specification. whole says that any field may be needed; then paths mean
// nothing.
func (p *Projection) Fields() (paths []string, whole bool) { return nil, true }

// NeedsFilterMatch says whether the projection has a positional operator.
func (p *Projection) NeedsFilterMatch() bool { return false }

// Meta lists the names of the metadata that {$meta: name} reads: "textScore",
// "sortKey" …
func (p *Projection) Meta() []string { return nil }

// Serialize is the specification as explain prints it.
func (p *Projection) Serialize() bson.Doc { return bson.Empty }

// Apply returns the document that the projection makes of doc, in memory of
// its own. env carries variables and metadata; its root is set to doc.
func (p *Projection) Apply(env *expr.Env, doc bson.Doc) (bson.Doc, error) {
	return p.Append(nil, env, doc)
}

// Append is Apply into the free capacity of dst: it returns dst with the
// document appended. A caller that reuses dst allocates nothing.
func (p *Projection) Append(dst []byte, env *expr.Env, doc bson.Doc) ([]byte, error) {
	return append(dst, doc...), nil
}

// ParseFind parses the projection of a find, a findAndModify or a count. An
// empty specification keeps everything.
func ParseFind(spec bson.Doc, opts *Options) (*Projection, error) { return &Projection{}, nil }

// ParseStage parses the argument of the stage with that name: $project,
// $addFields, $set, $unset, $replaceRoot or $replaceWith.
func ParseStage(stage string, arg bson.Value, opts *Options) (*Projection, error) {
	return &Projection{}, nil
}
