package pipeline

import (
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
// $sort, $skip and $limit in that order, and returns what is left.
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
			h.Sort, rest = s.Pattern, rest[1:]
		}
	}
	if len(rest) > 0 {
		if s, ok := rest[0].(*Skip); ok {
			h.Skip, rest = s.N, rest[1:]
		}
	}
	if len(rest) > 0 {
		if l, ok := rest[0].(*Limit); ok {
			h.Limit, rest = l.N, rest[1:]
		}
	}
	return h, &Pipeline{rest}
}
