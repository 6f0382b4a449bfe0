package pipeline

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// Ends reports whether a pipeline over measurements begins with a $group by parts
// of the meta value that asks for nothing but the newest measurement of each
// group, or the oldest: by $first or $last of what order sorts, by $top or
// $bottom, or for the $max or $min of the time. id is the group's _id.
func (p *Pipeline) Ends(order sortkey.Pattern, time, meta string) (id expr.Expr, newest, ok bool) {
	if len(p.Stages) == 0 {
		return nil, false, false
	}
	g, ok := p.Stages[0].(*Group)
	if !ok || len(g.Fields) == 0 {
		return nil, false, false
	}
	by := expr.Serialize(g.ID)
	if s := (&columnGrouping{}); !s.follows(by, time, meta) || s.timed {
		return nil, false, false
	}
	paths := groupPaths(by)
	for i, f := range g.Fields {
		end := endOf(f.Spec, order, time, paths)
		if end == 0 || i > 0 && (end > 0) != newest {
			return nil, false, false
		}
		newest = end > 0
	}
	return g.ID, newest, true
}

// groupPaths returns the fields of a group's _id, in printed form.
func groupPaths(id bson.Value) (paths []string) {
	switch {
	case id.Type == bson.TypeString:
		paths = append(paths, strings.TrimPrefix(id.Str(), "$"))
	case id.Type == bson.TypeDocument:
		for v := range id.Doc().Values() {
			if v.Type == bson.TypeString {
				paths = append(paths, strings.TrimPrefix(v.Str(), "$"))
			}
		}
	}
	return paths
}

// endOf returns 1 if an accumulator only needs the newest measurement of a group, -1
// for the oldest, else 0.
func endOf(s *expr.AccumulatorSpec, order sortkey.Pattern, time string, paths []string) int {
	switch s.Name {
	case "$first":
		return -timeDirection(order, time, paths)
	case "$last":
		return timeDirection(order, time, paths)
	case "$top", "$bottom":
		by, err := sortkey.Parse(s.Serialize().Doc().Lookup(s.Name).Doc().Lookup("sortBy").Doc())
		if err != nil {
			return 0
		}
		if s.Name == "$top" {
			return -timeDirection(by, time, paths)
		}
		return timeDirection(by, time, paths)
	}
	path, _, ok := s.Column()
	switch {
	case !ok || path != time:
	case s.Name == "$max":
		return 1
	case s.Name == "$min":
		return -1
	}
	return 0
}

// timeDirection returns 1 if an order sorts documents with equal values in paths by
// ascending time, -1 for descending, else 0.
func timeDirection(order sortkey.Pattern, time string, paths []string) int {
	last := len(order.Parts) - 1
	for i, part := range order.Parts {
		switch {
		case part.Meta != "" || order.Natural() != 0:
			return 0
		case i < last && !slices.Contains(paths, part.Path), i == last && part.Path != time:
			return 0
		case i == last && part.Descending:
			return -1
		case i == last:
			return 1
		}
	}
	return 0
}
