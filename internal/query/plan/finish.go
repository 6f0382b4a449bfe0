package plan

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// finish puts fetch, sort, skip, projection and limit on top of a source.
func finish(q *Query, s source) Node {
	s, _ = explode(q, s)
	n, covered := reach(q, s)
	if !s.sorted {
		limit := int64(0)
		if q.Limit > 0 {
			limit = q.Limit + q.Skip
		}
		n = sortOver(q, s, n, limit)
	}
	if q.Skip > 0 {
		n = skipOver(q, n)
	}
	switch {
	case q.ReturnKey:
		n = &ReturnKey{n}
	case q.Projection != nil:
		kind := ProjectionDefault
		switch simple := q.Projection.IsSimple(); {
		case covered && simple:
			kind = ProjectionCovered
		case simple:
			kind = ProjectionSimple
		}
		n = &Projection{n, kind, q.Projection}
	}
	if q.Limit > 0 && s.sorted {
		n = &Limit{n, q.Limit}
	}
	return n
}

// sortOver puts the query's order above n. Where few of many documents are wanted
// and keys tell their order, only those few are read: entries are sorted.
func sortOver(q *Query, s source, n Node, limit int64) Node {
	fetch, scan := entriesOf(q, n)
	if scan == nil || limit == 0 || q.ReadsKeys() || !holdsSort(q, s.ix, s.bounds) {
		return &Sort{Input: n, Pattern: q.Sort, Limit: limit}
	}
	scan.Keys = true // and no Paths: what is missing sorts as null
	fetch.Input = &Sort{Input: scan, Pattern: q.Sort, Limit: limit, Entries: true}
	return fetch
}

// entriesOf is the fetch that n is and the scan below it, where every entry that the
// scan delivers stands for a document of the answer; nil else.
func entriesOf(q *Query, n Node) (*Fetch, *IndexScan) {
	fetch, ok := n.(*Fetch)
	if !ok || fetch.Filter != nil || q.Hides {
		return nil, nil
	}
	scan, _ := fetch.Input.(*IndexScan)
	return fetch, scan
}

// skipOver leaves out the first rows of n: before their documents are read, where
// every entry below stands for one.
func skipOver(q *Query, n Node) Node {
	if fetch, scan := entriesOf(q, n); scan != nil {
		return &Fetch{Input: &Skip{fetch.Input, q.Skip}}
	}
	if fetch, ok := n.(*Fetch); ok {
		if s, ok := fetch.Input.(*Sort); ok && s.Entries {
			return &Fetch{Input: &Skip{s, q.Skip}}
		}
	}
	return &Skip{n, q.Skip}
}

// reach is the source with its fetch, where it needs one; covered says that
// the keys of the index hold all that the reader needs.
func reach(q *Query, s source) (n Node, covered bool) {
	switch n := s.node.(type) {
	case *IndexScan:
		if n.Index.Clustered {
			return clustered(q, s, n), false
		}
		covered = len(s.residual) == 0 && covers(q, s.ix, s.bounds)
		if covered || q.ReturnKey && s.sorted && len(s.residual) == 0 {
			if covered && (len(q.Paths) > 0 || !s.sorted) {
				n.Keys, n.Paths = true, neededPaths(q)
			}
			return n, covered
		}
		return &Fetch{n, join(s.residual)}, false
	case *SortMerge:
		covered = s.ix != nil && len(s.residual) == 0 && covers(q, s.ix, s.bounds)
		if covered {
			for _, in := range n.Nodes {
				scan := in.(*IndexScan)
				scan.Keys, scan.Paths = len(q.Paths) > 0, neededPaths(q)
			}
			return n, true
		}
		if n.fetched && len(s.residual) == 0 {
			return n, false
		}
		return &Fetch{n, join(s.residual)}, false
	case *AndSorted:
		return &Fetch{n, join(s.residual)}, false
	case *Or:
		if n.fetched && len(s.residual) == 0 || q.Paths != nil && len(q.Paths) == 0 && len(s.residual) == 0 && s.sorted {
			return n, false
		}
		return &Fetch{n, join(s.residual)}, false
	}
	return s.node, false
}

// neededPaths are the paths that the reader or a sort above the scan needs.
func neededPaths(q *Query) []string {
	paths := slices.Clone(q.Paths)
	for _, p := range q.Sort.Parts {
		paths = append(paths, p.Path)
	}
	return paths
}

// clustered turns a scan of the index that the records are into a scan of the
// records.
func clustered(q *Query, s source, n *IndexScan) Node {
	scan := &CollScan{Backward: n.Backward, Range: n}
	if !MatchesAll(q.Filter) {
		scan.Filter = q.Filter.Root()
	}
	return scan
}

// covers says whether the keys of ix hold all that the reader needs.
func covers(q *Query, ix *Index, bounds []Intervals) bool {
	if q.Paths == nil || q.Sort.Natural() != 0 {
		return false
	}
	for _, path := range q.Paths {
		if !holds(ix, path, bounds) {
			return false
		}
	}
	return holdsSort(q, ix, bounds)
}

// holdsSort says whether the keys of ix hold all that the query is sorted by.
func holdsSort(q *Query, ix *Index, bounds []Intervals) bool {
	for _, p := range q.Sort.Parts {
		if p.Meta != "" || !holds(ix, p.Path, bounds) {
			return false
		}
	}
	return true
}

// onlyNull says whether all keys hold null there, which may stand for nothing.
func onlyNull(l Intervals) bool { return onePoint(l) && l[0].Lo.Type == bson.TypeNull }

// holds says whether the value at a path can be had from a key: no array lies
// on the way, no hash or collation key stands in its place, and no other part
// begins or ends at it.
func holds(ix *Index, path string, bounds []Intervals) bool {
	found := false
	for i, p := range ix.Parts {
		switch {
		case p.Path == path:
			if p.Plugin != "" || onlyNull(bounds[i]) || ix.MultikeyPart(i) || slices.ContainsFunc(p.Components, bson.AllDigits) || ix.Collator != nil && mayHoldStrings(bounds[i]) || ix.Wild != nil && ix.Wild.vague {
				return false
			}
			found = true
		case strings.HasPrefix(p.Path, path+"."), strings.HasPrefix(path, p.Path+"."):
			return false
		}
	}
	return found && (ix.Wild == nil || onePoint(ix.Wild.paths))
}
