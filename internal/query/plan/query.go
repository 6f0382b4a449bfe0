package plan

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/bson"
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
	Collation  bson.Doc   // normalised; nil: simple
	Collator   bson.Collator
	ReturnKey  bool
	Tailable   bool
	NoScan     bool // refuse plans that scan the whole collection (notablescan)

	// Paths are the top-level fields that the reader needs, or nil for the
	// whole document; an index that holds them all covers the query.
	Paths []string
}

// Index describes one index to the planner.
type Index struct {
	*schema.Index
	// Multikey tells where arrays stand along the paths of the index.
	Multikey schema.MultikeyPaths
	// Partial is the parsed partialFilterExpression, or nil.
	Partial match.Node
	// Handle is the executor's own.
	Handle any
}

// Collection describes a collection to the planner.
type Collection struct {
	Namespace string
	Indexes   []*Index // ready ones, in order of creation; the one on _id first
	Collation bson.Doc // the default collation, nil: simple
	NoIDIndex bool     // local.oplog.rs and the like
}

// IsMultikey says whether a document with an array along one of the paths has
// ever been indexed.
func (ix *Index) IsMultikey() bool {
	for _, m := range ix.Multikey {
		if m != 0 {
			return true
		}
	}
	return false
}

// multikeyPart says whether arrays stand along the path of part i.
func (ix *Index) multikeyPart(i int) bool { return i < len(ix.Multikey) && ix.Multikey[i] != 0 }

// multikeyAt says whether an array stands at component c of the path of part i.
func (ix *Index) multikeyAt(i, c int) bool {
	if i >= len(ix.Multikey) {
		return false
	}
	return ix.Multikey[i]&(1<<min(c, 63)) != 0
}

// sameCollation says whether strings in the index have the order of the query.
func (ix *Index) sameCollation(q *Query) bool { return bytes.Equal(ix.Collation, q.Collation) }
