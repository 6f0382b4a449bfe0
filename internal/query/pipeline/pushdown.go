package pipeline

import (
	"math"

	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// Head is what the beginning of a pipeline asks of the collection, in terms
// that a query plan answers.
type Head struct {
	Filter *match.Filter // nil: every document
	Sort   sortkey.Pattern
	Skip   int64
	Limit  int64 // 0: none
}

// Split takes off the front of the pipeline what a query can answer, $match,
// $sort, and $limit and $skip, and returns the rest.
func (p *Pipeline) Split() (Head, *Pipeline) {
	var h Head
	rest := p.Stages
	var filters []match.Node
	for len(rest) > 0 {
		m, ok := rest[0].(*Match)
		if !ok {
			break
		}
		filters = append(filters, m.Filter.Root())
		rest = rest[1:]
	}
	if len(filters) > 0 {
		h.Filter = match.FilterOf(match.AndOf(filters...))
	}
	if len(rest) > 0 {
		if s, ok := rest[0].(*Sort); ok {
			h.Sort, h.Limit, rest = s.Pattern, s.Limit, rest[1:]
		}
	}
	return h, &Pipeline{h.window(rest)}
}

// window removes the limits and skips at the front. A query applies skip before limit,
// so a skip after a limit reduces that limit, and is only removed if some of it is
// left.
func (h *Head) window(rest []Stage) []Stage {
	for len(rest) > 0 {
		switch s := rest[0].(type) {
		case *Limit:
			if h.Limit == 0 || s.N < h.Limit {
				h.Limit = s.N
			}
		case *Skip:
			switch {
			case h.Limit > 0 && s.N >= h.Limit, s.N > math.MaxInt64-h.Skip:
				return rest
			case h.Limit > 0:
				h.Limit -= s.N
			}
			h.Skip += s.N
		default:
			return rest
		}
		rest = rest[1:]
	}
	return rest
}
