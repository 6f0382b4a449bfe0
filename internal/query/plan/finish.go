package plan

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// finish adds fetch, sort, skip, projection and limit to a source.
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

// sortOver adds the query's sort to n. If the limit is small and the keys have the
// sort's fields, it sorts index entries, and only the documents within the limit are
// read.
func sortOver(q *Query, s source, n Node, limit int64) Node {
	fetch, scan := entriesOf(q, n)
	if scan == nil || limit == 0 || q.ReadsKeys() || !holdsSort(q, s.ix, s.bounds) {
		return &Sort{Input: n, Pattern: q.Sort, Limit: limit}
	}
	scan.Keys = true // and no Paths: a missing field sorts as null
	fetch.Input = &Sort{Input: scan, Pattern: q.Sort, Limit: limit, Entries: true}
	return fetch
}

// entriesOf returns the fetch n and the scan below it, if every entry of the scan is a
// document of the result; else nil.
func entriesOf(q *Query, n Node) (*Fetch, *IndexScan) {
	fetch, ok := n.(*Fetch)
	if !ok || fetch.Filter != nil || q.Hides {
		return nil, nil
	}
	scan, _ := fetch.Input.(*IndexScan)
	return fetch, scan
}

// skipOver skips the first rows of n, before their documents are read if every entry
// below is a row.
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

// reach returns the source with a fetch if it needs one; covered says that the keys of
// the index have all that the reader needs.
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

// neededPaths returns the paths that the reader or a sort above the scan needs.
func neededPaths(q *Query) []string {
	paths := slices.Clone(q.Paths)
	for _, p := range q.Sort.Parts {
		paths = append(paths, p.Path)
	}
	return paths
}

// clustered converts a scan of the clustered index into a scan of the records.
func clustered(q *Query, s source, n *IndexScan) Node {
	scan := &CollScan{Backward: n.Backward, Range: n}
	if !MatchesAll(q.Filter) {
		scan.Filter = q.Filter.Root()
	}
	return scan
}

// covers reports whether the keys of ix have all that the reader needs.
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

// holdsSort reports whether the keys of ix have all fields of the query's sort.
func holdsSort(q *Query, ix *Index, bounds []Intervals) bool {
	for _, p := range q.Sort.Parts {
		if p.Meta != "" || !holds(ix, p.Path, bounds) {
			return false
		}
	}
	return true
}

// onlyNull reports whether the part is null in all keys, which may be missing fields.
func onlyNull(l Intervals) bool { return onePoint(l) && l[0].Lo.Type == bson.TypeNull }

// holds reports whether a key has the value at a path: there is no array on the path,
// no hash or collation key in its place, and no other part begins or ends at it.
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
