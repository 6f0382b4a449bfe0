package plan

import "github.com/mayflydb/mayfly/internal/query/match"

// ForCount turns a plan whose documents are only counted into a cheaper one:
// an index scan that needs no documents becomes a COUNT_SCAN.
func ForCount(n Node, skip, limit int64) Node {
	if f, ok := n.(*Fetch); ok && f.Filter == nil {
		n = f.Input
	}
	if s, ok := n.(*IndexScan); ok && s.Min == nil && s.Max == nil {
		n = &CountScan{Index: s.Index, Bounds: s.Bounds, Dedup: s.Dedup}
	}
	return &Count{Input: n, Skip: skip, Limit: limit}
}

// MatchesAll says whether a filter lets every document through.
func MatchesAll(f *match.Filter) bool {
	and, ok := f.Root().(*match.And)
	return ok && len(and.Children) == 0
}
