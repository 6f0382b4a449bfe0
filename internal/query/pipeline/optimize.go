package pipeline

import (
	"math"

	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// maxMoves bounds the steps of one optimization, in steps a stage.
const maxMoves = 64

// Optimize returns a pipeline that answers the same and does less: filters and
// limits move towards the beginning, neighbours join. p does not change. (Manual:
// "Aggregation Pipeline Optimization".)
func (p *Pipeline) Optimize() *Pipeline {
	list := append([]Stage(nil), p.Stages...)
	moves := maxMoves * len(list)
	for i := 0; i+1 < len(list) && moves > 0; {
		out, changed := pair(list[i], list[i+1])
		if !changed {
			i++
			continue
		}
		moves--
		list = append(list[:i:i], append(out, list[i+2:]...)...)
		// A stage that has moved forward may move further.
		i = max(i-1, 0)
	}
	narrowStages(list)
	return &Pipeline{list}
}

// narrowWithin bounds the later stages that are searched for the fields that a stage
// may leave out.
const narrowWithin = 50

// narrowStages finds the fields that stages which make several documents of one need
// not copy.
func narrowStages(list []Stage) {
	for i, s := range list {
		rest := list[i+1:]
		if len(rest) > narrowWithin {
			continue
		}
		switch s := s.(type) {
		case *Unwind:
			c := *s
			c.keep = (&Pipeline{rest}).Reads()
			list[i] = &c
		case *Lookup:
			c := *s
			c.keep = (&Pipeline{rest}).Reads()
			list[i] = &c
		case *Group:
			c := *s
			c.keep = (&Pipeline{list[i:]}).Reads()
			list[i] = &c
		}
	}
}

// Reads are the fields of which the pipeline reads anything, nil for all.
func (p *Pipeline) Reads() []string {
	paths, whole := p.Needs()
	if whole {
		return nil
	}
	return expr.FirstNames(paths)
}

// pair optimizes two adjacent stages, and returns their replacement.
func pair(a, b Stage) ([]Stage, bool) {
	switch b := b.(type) {
	case *Match:
		return beforeMatch(a, b)
	case *Limit:
		return beforeLimit(a, b)
	case *Skip:
		if first, ok := a.(*Skip); ok && first.N <= math.MaxInt64-b.N {
			return []Stage{&Skip{first.N + b.N}}, true
		}
		if oneToOne(a) {
			return []Stage{b, a}, true
		}
	case *Unwind:
		return joinUnwind(a, b)
	}
	return nil, false
}

// oneToOne reports whether a stage makes one document of each, in the same order, so
// that a skip or a limit may come first.
func oneToOne(s Stage) bool {
	switch s := s.(type) {
	case *Shape:
		return true
	case *Lookup:
		return s.Unwind == nil
	case *GraphLookup:
		return s.Unwind == nil
	}
	return false
}

// beforeLimit moves a limit towards the beginning, or joins it to a sort.
func beforeLimit(a Stage, l *Limit) ([]Stage, bool) {
	switch a := a.(type) {
	case *Limit:
		return []Stage{&Limit{min(a.N, l.N)}}, true
	case *Sort:
		if a.Limit == 0 || l.N < a.Limit {
			return []Stage{&Sort{Pattern: a.Pattern, Limit: l.N, keyed: a.keyed}}, true
		}
		return []Stage{a}, true
	case *Skip:
		if a.N <= math.MaxInt64-l.N {
			return []Stage{&Limit{a.N + l.N}, a}, true
		}
	}
	if oneToOne(a) {
		return []Stage{l, a}, true
	}
	return nil, false
}

// joinUnwind merges an $unwind into the join whose array it unwinds.
func joinUnwind(a Stage, u *Unwind) ([]Stage, bool) {
	fits := func(as []string) bool {
		path := pathOf(as)
		return path == u.Path && (u.Index == "" || !overlap(u.Index, path))
	}
	switch a := a.(type) {
	case *Lookup:
		if a.Unwind == nil && fits(a.as) {
			c := *a
			c.Unwind = u
			return []Stage{&c}, true
		}
	case *GraphLookup:
		if a.Unwind == nil && fits(a.as) {
			c := *a
			c.Unwind = u
			return []Stage{&c}, true
		}
	}
	return nil, false
}

// beforeMatch moves a filter, or the movable part of it, before a.
func beforeMatch(a Stage, m *Match) ([]Stage, bool) {
	root := m.Filter.Root()
	switch a := a.(type) {
	case *Match:
		return []Stage{&Match{match.FilterOf(match.AndOf(a.Filter.Root(), root))}}, true
	case *Sort:
		if a.Limit == 0 && !match.DependsOn(root).Random {
			return []Stage{m, a}, true
		}
		return nil, false
	case *UnionWith:
		return intoUnion(a, m)
	}
	pass := passes(a)
	if pass == nil {
		return nil, false
	}
	var front, back []match.Node
	for _, n := range match.Conjuncts(root) {
		if moved, ok := pass(n); ok {
			front = append(front, moved)
		} else {
			back = append(back, n)
		}
	}
	if len(front) == 0 {
		return nil, false
	}
	out := []Stage{&Match{match.FilterOf(match.AndOf(front...))}, a}
	if len(back) > 0 {
		out = append(out, &Match{match.FilterOf(match.AndOf(back...))})
	}
	return out, true
}

// intoUnion moves a filter into both sides of a union.
func intoUnion(u *UnionWith, m *Match) ([]Stage, bool) {
	if match.DependsOn(m.Filter.Root()).Random {
		return nil, false
	}
	from := *u.from
	from.Pipeline = (&Pipeline{append(append([]Stage(nil), from.Pipeline.Stages...), m)}).Optimize()
	return []Stage{m, &UnionWith{arg: u.arg, from: &from}}, true
}

// passes returns a function that moves a predicate before a stage, with the paths that
// it has there; nil if none may.
func passes(s Stage) func(match.Node) (match.Node, bool) {
	switch s := s.(type) {
	case *Shape:
		return effectOf(s).pass
	case *Unwind:
		return effect{changes: nonEmpty(s.Path, s.Index)}.pass
	case *Lookup:
		e := effect{changes: []string{pathOf(s.as)}}
		if s.Unwind != nil {
			e.changes = append(e.changes, nonEmpty(s.Unwind.Index)...)
		}
		return e.pass
	case *GraphLookup:
		e := effect{changes: []string{pathOf(s.as)}}
		if s.Unwind != nil {
			e.changes = append(e.changes, nonEmpty(s.Unwind.Index)...)
		}
		return e.pass
	case *Group:
		return groupPass(s)
	}
	return nil
}

func nonEmpty(paths ...string) []string {
	var out []string
	for _, p := range paths {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}
