package pipeline

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// Parts is a pipeline divided between shards, which each run one part over
// their own documents, and a merger, which runs the other over what they send.
type Parts struct {
	Shard, Merge *Pipeline
	// Sort is the order in which the shards send, and which the merger keeps; an
	// empty one promises none.
	Sort sortkey.Pattern
	// Partial says that the shards end with a group whose results are not the
	// final ones: the merger's first stage joins them.
	Partial bool
}

// SplitForShards divides the pipeline, which is optimized before. Stages that
// look at one document run on the shards. The first stage that must see all
// documents ends their part: a sort is done by both sides, limits are applied
// by both, a group is computed in parts where its accumulators allow that.
func (p *Pipeline) SplitForShards() Parts {
	for i, s := range p.Stages {
		before, behind := p.Stages[:i:i], p.Stages[i+1:]
		switch s := s.(type) {
		case *Match, *Shape, *Unwind, *Redact:
			continue
		case *Sort:
			merge := behind
			if s.Limit > 0 {
				merge = append([]Stage{&Limit{s.Limit}}, behind...)
			}
			return Parts{Shard: &Pipeline{append(before, s)}, Merge: &Pipeline{merge}, Sort: s.Pattern}
		case *Limit:
			return Parts{Shard: &Pipeline{append(before, s)}, Merge: &Pipeline{append([]Stage{s}, behind...)}}
		case *Group:
			partial, final, ok := s.halves()
			if !ok {
				return Parts{Shard: narrowed(before, p.Stages[i:]), Merge: &Pipeline{p.Stages[i:]}}
			}
			return Parts{Shard: &Pipeline{append(before, partial)}, Merge: &Pipeline{append(final, behind...)}, Partial: true}
		case *Count:
			partial, final := s.halves()
			return Parts{Shard: &Pipeline{append(before, partial)}, Merge: &Pipeline{append(final, behind...)}, Partial: true}
		default:
			return Parts{Shard: narrowed(before, p.Stages[i:]), Merge: &Pipeline{p.Stages[i:]}}
		}
	}
	return Parts{Shard: p, Merge: &Pipeline{}}
}

// narrowed returns the shards' part, which sends only the fields that the router's part
// reads, if these are known.
func narrowed(before, rest []Stage) *Pipeline {
	paths, whole := (&Pipeline{rest}).Needs()
	if whole || len(paths) == 0 {
		return &Pipeline{before}
	}
	slices.Sort(paths)
	b := new(bson.Builder)
	if !within("_id", paths) {
		b.Int32("_id", 0)
	}
	last := ""
	for _, path := range paths {
		if last == "" || !overlap(last, path) {
			b.Int32(path, 1)
			last = path
		}
	}
	p := &parsing{Options: &Options{Expr: &expr.Options{}}, name: "$project"}
	s, err := parseShape(bson.Document(b.Finish()), p)
	if err != nil {
		return &Pipeline{before} // a path that is not allowed in a projection
	}
	return &Pipeline{append(before, s)}
}

// combiners maps accumulators to those that combine their partial results.
var combiners = map[string]string{"$sum": "$sum", "$min": "$min", "$max": "$max", "$first": "$first", "$last": "$last"}

// halves splits a group: each shard groups its documents, and the router groups the
// groups. ok is false if an accumulator cannot be split.
func (g *Group) halves() (partial Stage, final []Stage, ok bool) {
	merge := new(bson.Builder).String("_id", "$_id")
	for _, f := range g.Fields {
		combiner := combiners[f.Spec.Name]
		if combiner == "" {
			return nil, nil, false
		}
		merge.OpenDoc(f.Name).String(combiner, "$"+f.Name).Close()
	}
	b, err := parseGroup(bson.Document(merge.Finish()), &parsing{Options: &Options{Expr: &expr.Options{}}, name: "$group"})
	if err != nil {
		return nil, nil, false
	}
	return g, []Stage{b}, true
}

// halves splits a count: the shards count, the router sums up.
func (c *Count) halves() (partial Stage, final []Stage) {
	sum := new(bson.Builder).Null("_id").OpenDoc(c.Field).String("$sum", "$"+c.Field).Close().Finish()
	p := &parsing{Options: &Options{Expr: &expr.Options{}}, name: "$group"}
	g, err := parseGroup(bson.Document(sum), p)
	if err != nil {
		return c, nil
	}
	p.name = "$project"
	s, err := parseShape(bson.Document(new(bson.Builder).Int32("_id", 0).Finish()), p)
	if err != nil {
		return c, nil
	}
	return c, []Stage{g, s}
}
