package plan

import (
	"bytes"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/project"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Query is what is asked of one collection.
type Query struct {
	Filter     *match.Filter
	Sort       sortkey.Pattern
	Projection *project.Projection // nil: whole documents
	Skip       int64
	Limit      int64      // 0: none
	Hint       bson.Value // Missing, an index name, a key pattern, or {$natural: 1}
	Min, Max   bson.Doc   // bounds of the hinted index, nil: none
	// Env holds the variables that $expr compares fields with; nil for none.
	Env       *expr.Env
	Collation bson.Doc // normalised; nil: simple
	Collator  bson.Collator
	ReturnKey bool
	Tailable  bool
	NoScan    bool // reject plans that scan the whole collection (notablescan)
	// NoExpress keeps the planner from the plans that only a find has.
	NoExpress bool

	// Reached is set by Candidates.
	Reached   Limits
	interrupt expr.Interrupt // of Candidates

	// Paths are the fields that the reader needs, or nil for the whole document;
	// an index that holds them all covers the query.
	Paths []string
	// Fields are those that the stages of a pipeline above the query need, for
	// its shape; nil for all.
	Fields []string
	// LeavesOut reports whether a bucket of a time series is another shard's, so that none
	// of its measurements is found; nil where the shard owns all of them.
	LeavesOut func(bucket bson.Doc) bool
	// Hides says that documents may be hidden because they have expired, which only
	// reading them shows.
	Hides bool
	// Above is the stage of a pipeline that the plan of the query includes, or "".
	Above string
	// TextScore says that what is above the query reads the scores of a $text, as
	// its sort and its projection may, too.
	TextScore bool
	// Distinct is the path whose values are wanted, each once; "" for none.
	// Grouping says that what is missing counts as a value.
	Distinct string
	Grouping bool
	// Ends asks for the newest or the oldest measurement of each group; nil for
	// all.
	Ends *Ends
	// Allowed says which indexes an index filter leaves to the query, whatever
	// its hint says; nil for all.
	Allowed func(*schema.Index) bool
}

// ReadsKeys reports whether the query reads the index keys by which its documents were
// found.
func (q *Query) ReadsKeys() bool {
	return q.ReturnKey || q.Projection != nil && slices.Contains(q.Projection.Meta(), "indexKey")
}

// Limits tells which limits kept plans from being tried, as explain does.
type Limits struct {
	Or, And bool // more ways to combine indexes
	Explode bool // scans that would be split into too many
}

// Index describes one index to the planner. A wildcard index is described once
// for each path that a query looks at (see wildcard.go).
type Index struct {
	*schema.Index
	// Multikey tells where arrays stand along the paths of the index.
	Multikey schema.MultikeyPaths
	// Partial is the parsed partialFilterExpression, or nil.
	Partial match.Node
	// Handle belongs to the executor.
	Handle any
	// Clustered says that the records themselves are in the order of the index,
	// and that the collection was made so by its options.
	Clustered bool
	// Wild describes the path of a wildcard index, or is nil.
	Wild *wildPath
}

// Collection describes a collection to the planner.
type Collection struct {
	Namespace string
	Indexes   []*Index // ready ones, in order of creation; the one on _id first
	Collation bson.Doc // the default collation, nil: simple
	NoIDIndex bool     // local.oplog.rs and the like
	Exempt    bool     // exempt from notablescan
}

// Title identifies an index, and the path of a wildcard index.
func (ix *Index) Title() string {
	if ix.Wild != nil {
		return ix.Name + " " + ix.Wild.path
	}
	return ix.Name
}

// IsMultikey reports whether a document with an array along one of the paths has
// ever been indexed.
func (ix *Index) IsMultikey() bool {
	for _, m := range ix.Multikey {
		if m != 0 {
			return true
		}
	}
	return false
}

// HoldsElements reports whether the keys hold all distinct values at path, the first part:
// each array element has a key of its own.
func (ix *Index) HoldsElements(path string) bool {
	return ix.Parts[0].Path == path && len(ix.Parts[0].Components) == 1 && ix.Collator == nil && ix.Wild == nil && ix.standsAlone(0)
}

// MultikeyPart reports whether arrays stand along the path of part i.
func (ix *Index) MultikeyPart(i int) bool { return i < len(ix.Multikey) && ix.Multikey[i] != 0 }

// multikeyAt reports whether component c of the path of part i may be an array.
func (ix *Index) multikeyAt(i, c int) bool {
	if i >= len(ix.Multikey) {
		return false
	}
	return ix.Multikey[i]&(1<<min(c, 63)) != 0
}

// severalKeys reports whether one document may have several keys.
func (ix *Index) severalKeys() bool {
	return ix.IsMultikey() || ix.Wild != nil && (ix.Wild.vague || !onePoint(ix.Wild.paths))
}

// sameCollation reports whether strings in the index have the order of the query.
func (ix *Index) sameCollation(q *Query) bool { return bytes.Equal(ix.Collation, q.Collation) }
