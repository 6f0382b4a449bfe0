package plan

import "slices"

// maxExploded bounds the scans into which one scan may be split to keep an order
// (internalQueryMaxScansToExplode).
const maxExploded = 200

// explode splits the scan of a source that begins with points into one scan for each,
// if those are in the query's order: {a: {$in: [1, 2]}} sorted by b
// over {a: 1, b: 1}. The results are merged.
func explode(q *Query, s source) (source, bool) {
	scan, ok := s.node.(*IndexScan)
	if !ok || s.sorted || q.Sort.IsEmpty() || scan.Min != nil || scan.Max != nil {
		return s, false
	}
	parts, scans := 0, 1
	for parts < len(s.bounds) && s.bounds[parts].ArePoints() {
		if scans*len(s.bounds[parts]) > maxExploded {
			q.Reached.Explode = true
			break
		}
		scans *= len(s.bounds[parts])
		parts++
	}
	if scans == 1 {
		return s, false
	}
	all := [][]Intervals{nil}
	for _, l := range s.bounds[:parts] {
		var next [][]Intervals
		for _, prefix := range all {
			for _, iv := range l {
				next = append(next, append(slices.Clone(prefix), Intervals{iv}))
			}
		}
		all = next
	}
	merge := &SortMerge{Pattern: q.Sort, Dedup: scan.Dedup}
	for _, prefix := range all {
		bounds := append(prefix, s.bounds[parts:]...)
		sorted, backward := providesSort(q, s.ix, bounds)
		if !sorted {
			return s, false
		}
		one := *scan
		one.Bounds, one.Backward = bounds, backward
		merge.Nodes = append(merge.Nodes, &one)
	}
	s.node, s.sorted = merge, true
	return s, true
}
