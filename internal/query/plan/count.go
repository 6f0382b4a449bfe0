package plan

import "github.com/mayflydb/mayfly/internal/query/match"

// ForCount turns a plan whose documents are only counted into a cheaper one:
// a scan of one range of an index becomes a COUNT_SCAN.
func ForCount(n Node, skip, limit int64) Node {
	return &Count{Input: countScans(n), Skip: skip, Limit: limit}
}

func countScans(n Node) Node {
	switch n := n.(type) {
	case *Subplan:
		return &Subplan{countScans(n.Input)}
	case *IndexScan:
		if n.Min == nil && n.Max == nil && n.Filter == nil && isSimpleRange(n.Bounds) {
			return &CountScan{Index: n.Index, Bounds: n.Bounds, Dedup: n.Dedup}
		}
	}
	return n
}

// ForPresence turns a plan for which it only matters that documents exist into a
// COUNT_SCAN, where it is a scan of one range of an index.
func ForPresence(n Node) Node {
	in := n
	if f, ok := n.(*Fetch); ok && f.Filter == nil {
		in = f.Input
	}
	if s, ok := countScans(in).(*CountScan); ok {
		return s
	}
	return n
}

// isSimpleRange reports whether bounds are one range of keys: points, then at most one
// interval, then everything.
func isSimpleRange(bounds []Intervals) bool {
	ranged := false
	for _, l := range bounds {
		if len(l) != 1 || ranged && !l.IsAll() {
			return false
		}
		ranged = ranged || !l[0].IsPoint()
	}
	return true
}

// MatchesAll reports whether a filter matches every document.
func MatchesAll(f *match.Filter) bool {
	and, ok := f.Root().(*match.And)
	return ok && len(and.Children) == 0
}
