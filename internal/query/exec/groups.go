package exec

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/project"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
)

// A $group by one field that needs only the groups, or the first document of each in
// the order of an index, reads one entry of that index per group: the scan skips from
// value to value.

// reads tells the query which fields the pipeline reads, and returns the adjustment of
// its plans if the pipeline begins with such a $group, else nil.
func (x *Executor) reads(c *catalog.Collection, q *Query, rest *pipeline.Pipeline) func(plan.Node) plan.Node {
	paths, whole := rest.Needs()
	if !whole {
		q.Paths = append([]string{}, paths...)
	}
	if c != nil && c.IsTimeseries() && q.Collator == nil && q.Skip == 0 && q.Limit == 0 {
		o := c.Settings.Timeseries
		if id, newest, ok := rest.Ends(q.Sort, o.TimeField, o.MetaField); ok {
			q.Ends, q.Sort = &plan.Ends{ID: id, Newest: newest}, sortkey.Pattern{}
		}
		return nil
	}
	if !whole && len(paths) == 0 && q.Skip == 0 && q.Limit == 0 && len(rest.Meta()) == 0 {
		return plan.ForPresence
	}
	path, pick := rest.GroupsBy()
	if pick == pipeline.PickNone || q.Collator != nil || q.Skip != 0 || q.Limit != 0 || c == nil || c.Settings.Timeseries != nil {
		return nil
	}
	if pick == pipeline.PickAny {
		if !q.Sort.IsEmpty() {
			return nil
		}
		q.Distinct, q.Grouping, q.NoExpress, q.Paths = path, true, true, []string{path}
		return leaders(path, q.Paths)
	}
	if q.Sort.IsEmpty() || q.Sort.Parts[0].Path != path || q.Sort.Natural() != 0 {
		return nil
	}
	adjust, given := leaders(path, q.Paths), q.Sort
	if pick == pipeline.PickLast { // the last is the first of the opposite order
		q.Sort = opposite(given)
	}
	if nodes, err := x.nodes(c, q, adjust); err != nil || !skips(nodes[0]) {
		q.Sort = given
		return nil
	}
	return adjust
}

// opposite is the pattern of the opposite order.
func opposite(p sortkey.Pattern) sortkey.Pattern {
	var b bson.Builder
	for _, part := range p.Parts {
		b.Int32(part.Path, map[bool]int32{true: 1, false: -1}[part.Descending])
	}
	reversed, err := sortkey.Parse(b.Finish())
	if err != nil { // metadata has one order only
		return p
	}
	return reversed
}

// skips reports whether a plan skips from value to value.
func skips(n plan.Node) bool {
	return has(n, func(n plan.Node) bool { _, ok := n.(*plan.DistinctScan); return ok })
}

// readsLeast reports whether a plan needs no trial against others: it skips from value
// to value, or counts the entries of a range.
func readsLeast(n plan.Node) bool {
	return skips(n) || has(n, func(n plan.Node) bool { _, ok := n.(*plan.CountScan); return ok })
}

// leaders converts plans over only an index that has path after point bounds into plans
// that return the first document for each value of path. paths are the fields that are
// read, nil for all.
func leaders(path string, paths []string) func(plan.Node) plan.Node {
	shape, kind := shapeOf(paths), plan.ProjectionCovered
	return func(n plan.Node) plan.Node {
		in := n
		fetch, fetching := n.(*plan.Fetch)
		if fetching {
			if in, kind = fetch.Input, plan.ProjectionSimple; fetch.Filter != nil {
				return n
			}
		}
		s, ok := in.(*plan.IndexScan)
		if !ok || s.Index.IsMultikey() || s.Index.Wild != nil || s.Index.Collator != nil || s.Min != nil || s.Max != nil || s.Filter != nil {
			return n
		}
		at := slices.IndexFunc(s.Index.Parts, func(p schema.Part) bool { return p.Path == path })
		if at < 0 || s.Index.Parts[at].Plugin != "" || slices.ContainsFunc(s.Bounds[:at], func(l plan.Intervals) bool { return len(l) != 1 || !l[0].IsPoint() }) {
			return n
		}
		var out plan.Node = &plan.DistinctScan{Index: s.Index, Bounds: s.Bounds, Field: at, Backward: s.Backward, Groups: true, Paths: paths}
		if fetching {
			out = &plan.Fetch{Input: out}
		}
		if shape != nil {
			out = &plan.Projection{Input: out, Kind: kind, Spec: shape}
		}
		return out
	}
}

// shapeOf returns the projection on paths, nil if there is none.
func shapeOf(paths []string) *project.Projection {
	if len(paths) == 0 {
		return nil
	}
	var b bson.Builder
	if !slices.Contains(paths, "_id") {
		b.Int32("_id", 0)
	}
	for _, path := range paths {
		b.Int32(path, 1)
	}
	p, err := project.ParseFind(b.Finish(), nil)
	if err != nil {
		return nil
	}
	return p
}
