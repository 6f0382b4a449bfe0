package update

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Kind is the form of an update.
type Kind uint8

const (
	// Modifiers is a document of update operators.
	Modifiers Kind = iota
	// Replacement is a document that replaces the old one, except for its _id.
	Replacement
	// Pipeline is an array of aggregation stages.
	Pipeline
	// Delta is the difference to the document before, in an entry of an oplog.
	Delta
)

// Options is the context of an update. A nil *Options is the default.
type Options struct {
	// ArrayFilters are the filters of the identifiers in $[identifier]; nil
	// if the statement has no arrayFilters.
	ArrayFilters []bson.Doc
	// Constants is `c`: variables for a pipeline; nil if the statement has
	// none.
	Constants bson.Doc
	// Match is how $pull's conditions and the array filters are parsed.
	Match *match.Options
	// Expr is how the expressions of a pipeline are parsed. Constants get the slots
	// after its Vars.
	Expr *expr.Options
	// Collator orders strings in $addToSet, $max, $min, $pull, $pullAll and
	// $push's $sort.
	Collator bson.Collator
}

// Update is a parsed update. It is immutable and safe for concurrent use.
type Update struct {
	kind        Kind
	modifiers   *modifiers
	replacement bson.Doc
	stored      bool // the replacement was stored so: its names may start with $
	pipeline    *pipeline
	delta       *delta
}

// Parse parses the `u` of an update statement, the `update` of a findAndModify:
// a document or an array of stages. The errors are *mongoerr.Error.
func Parse(u bson.Value, opts *Options) (*Update, error) {
	if opts == nil {
		opts = &Options{}
	}
	if opts.Constants != nil && u.Type != bson.TypeArray {
		return nil, mongoerr.New(mongoerr.Code(51198), "Constant values may only be specified for pipeline updates")
	}
	switch u.Type {
	case bson.TypeArray:
		if opts.ArrayFilters != nil {
			return nil, mongoerr.New(mongoerr.FailedToParse, "arrayFilters may not be specified for pipeline-syle updates")
		}
		p, err := parsePipeline(u.Doc(), opts)
		return &Update{kind: Pipeline, pipeline: p}, err
	case bson.TypeDocument:
	default:
		return nil, mongoerr.New(mongoerr.FailedToParse, "Update argument must be either an object or an array")
	}
	if name, _ := u.Doc().First(); name == "" || name[0] != '$' {
		if opts.ArrayFilters != nil {
			return nil, mongoerr.New(mongoerr.FailedToParse, "arrayFilters may not be specified for replacement-style updates")
		}
		return &Update{kind: Replacement, replacement: u.Doc()}, nil
	}
	m := &struct {
		Update
		modifiers modifiers
	}{}
	m.Update = Update{kind: Modifiers, modifiers: &m.modifiers}
	return &m.Update, m.modifiers.parse(u.Doc(), opts)
}

// Kind is the form of the update.
func (u *Update) Kind() Kind { return u.kind }

// NeedsArrayIndex reports whether a path has a positional $, so that the filter
// has to tell which element matched.
func (u *Update) NeedsArrayIndex() bool { return u.modifiers != nil && u.modifiers.positional }

// Apply returns the document that the update makes of doc. changed is false
// if the result is the same, byte by byte; newDoc is then doc itself. Else
// newDoc is in ctx.Memory, or has memory of its own. The error is *mongoerr.Error: 66 if _id
// would change, 17419 or 10334 if the result is too large.
func (u *Update) Apply(doc bson.Doc, ctx *Context) (newDoc bson.Doc, changed bool, err error) {
	newDoc, err = u.apply(doc, ctx)
	if err != nil || !ctx.changed {
		return doc, false, err
	}
	if len(newDoc) > bson.MaxDocumentSize {
		return doc, false, sizeError(newDoc, 17419, "Resulting document after update is larger than %d")
	}
	return newDoc, true, nil
}

func (u *Update) apply(doc bson.Doc, ctx *Context) (bson.Doc, error) {
	ctx.start(doc)
	switch u.kind {
	case Replacement:
		return ctx.replace(doc, u.replacement, u.stored)
	case Pipeline:
		return u.pipeline.apply(doc, ctx)
	case Delta:
		return u.delta.apply(doc, ctx)
	}
	return u.modifiers.apply(doc, ctx)
}
