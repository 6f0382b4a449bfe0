package node

import (
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// checkMeta refuses a sort or a projection by metadata that the filter does not
// provide: error 40218.
func (q *query) checkMeta(p *project.Projection) error {
	var names []string
	for _, p := range q.Sort.Parts {
		if p.Meta != "" {
			names = append(names, p.Meta)
		}
	}
	if p != nil {
		names = append(names, p.Meta()...)
	}
	for _, name := range names {
		title := ""
		switch name {
		case "sortKey":
			if q.Sort.IsEmpty() {
				return mongoerr.New(mongoerr.BadValue, "cannot use sortKey $meta projection without a sort")
			}
		case "textScore":
			if match.TextIn(q.Filter.Root()) == nil {
				title = "text score"
			}
		case "geoNearDistance":
			if !searchesNear(q.Filter.Root()) {
				title = "$geoNear distance"
			}
		case "geoNearPoint":
			if !searchesNear(q.Filter.Root()) {
				title = "$geoNear point"
			}
		}
		if title != "" {
			return mongoerr.New(40218, "query requires %s metadata, but it is not available", title)
		}
	}
	return nil
}

// searchesNear reports whether a conjunct of n is a $near.
func searchesNear(n match.Node) bool {
	for _, c := range match.Conjuncts(n) {
		if _, ok := c.(*match.GeoNear); ok {
			return true
		}
	}
	return false
}
