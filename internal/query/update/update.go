package update

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Kind is the form of an update.
type Kind uint8

const (
	// Modifiers is a document of update operators.
	Modifiers Kind = iota
	// Replacement is a document that takes the place of the old one but for
	// _id.
	Replacement
	// Pipeline is an array of aggregation stages.
	Pipeline
)

// Options is the surroundings of an update. A nil *Options is the default.
type Options struct {
	// ArrayFilters are the filters of the identifiers in $[identifier]; nil
	// where the statement has no arrayFilters.
	ArrayFilters []bson.Doc
	// Constants is `c`: variables for a pipeline; nil where the statement has
	// none.
	Constants bson.Doc
	// Match is how $pull's conditions and the array filters are parsed.
	Match *match.Options
	// Expr is how the expressions of a pipeline are parsed. Constants get the
	// slots behind its Vars.
	Expr *expr.Options
	// Collator orders strings in $addToSet, $max, $min, $pull, $pullAll and
	// $push's $sort.
	Collator bson.Collator
}

// Context is what one application of an update depends on besides the
// document.
type Context struct {
	// ArrayIndex is the name of the element ("0", "1" …) that the positional $
	// stands for, as match.Filter.MatchArrayIndex tells; empty for none.
	ArrayIndex string
	// Env evaluates the expressions of a pipeline; its Now is also the time of
	// $currentDate.
	Env *expr.Env
	// Timestamp makes the timestamp of {$currentDate: {a: {$type:
	// "timestamp"}}}; nil derives one from Env.Now.
	Timestamp func() uint64
	// Insert says that the document is being inserted by an upsert, so that
	// $setOnInsert acts. Update.Upsert sets it.
	Insert bool
}

// Update is a parsed update. It is immutable and safe for concurrent use.
type Update struct {
	kind Kind
}

// Parse parses the `u` of an update statement, the `update` of a findAndModify:
// a document or an array of stages. The errors are *mongoerr.Error.
func Parse(u bson.Value, opts *Options) (*Update, error) { return &Update{}, nil }

// Kind is the form of the update.
func (u *Update) Kind() Kind { return u.kind }

// NeedsArrayIndex says whether a path has a positional $, so that the filter
// has to tell which element matched.
func (u *Update) NeedsArrayIndex() bool { return false }

// MayChange says whether the update can change what lies at, above or below a
// dotted path of an index. Numbers in either path are taken as array
// positions, which index paths leave out.
func (u *Update) MayChange(path string) bool { return true }

// Apply returns the document that the update makes of doc. changed is false
// where the result is the same, byte by byte; newDoc is then doc itself. Else
// newDoc has memory of its own. The error is *mongoerr.Error: 66 where _id
// would change, 10334 where the result is too large.
func (u *Update) Apply(doc bson.Doc, ctx *Context) (newDoc bson.Doc, changed bool, err error) {
	return doc, false, nil
}

// Upsert returns the document to insert where filter matched nothing: the
// filter's equalities, with the update applied to them, _id first. An _id that
// neither gives is a new ObjectId.
func (u *Update) Upsert(filter *match.Filter, ctx *Context) (bson.Doc, error) {
	return bson.Empty, nil
}
