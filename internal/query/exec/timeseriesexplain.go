package exec

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// The explain of a query over measurements is that of a pipeline: the plan that
// finds buckets is its $cursor, and what the query does with the measurements
// are stages of their own.

// shownStage is one of those stages, with what it did.
type shownStage struct {
	doc   bson.Doc
	stats *Stats
}

// unpacking finds the stage that unpacks buckets, and what is above it, from
// the top; nil where there is none.
func unpacking(s Stage) (u *unpack, above []Stage) {
	for {
		switch t := s.(type) {
		case *unpack:
			return t, above
		case *unpackOrdered:
			return &t.unpack, above
		case *unpackEnds:
			return &t.unpack, above
		}
		ins := s.Inputs()
		if len(ins) != 1 {
			return nil, nil
		}
		above = append(above, s)
		s = ins[0]
	}
}

// shownStages are the stages of a query over measurements, first to last.
func shownStages(u *unpack, above []Stage) []shownStage {
	all := []shownStage{{shownUnpack(u.node), &u.stats}}
	for i := len(above) - 1; i >= 0; i-- {
		st := above[i].Stats()
		var b bson.Builder
		switch n := st.Node.(type) {
		case *plan.Sort:
			b.OpenDoc("$sort").Doc("sortKey", n.Pattern.Spec())
			if n.Limit > 0 {
				b.Int64("limit", n.Limit)
			}
			b.Close()
		case *plan.Skip:
			b.Int64("$skip", n.N)
		case *plan.Limit:
			b.Int64("$limit", n.N)
		case *plan.Projection:
			b.Doc("$project", n.Spec.Serialize())
		default:
			continue
		}
		all = append(all, shownStage{b.Finish(), st})
	}
	return all
}

func shownUnpack(n *plan.Unpack) bson.Doc {
	var b bson.Builder
	b.OpenDoc("$_internalUnpackBucket")
	if n.Paths == nil {
		b.OpenArray("exclude").Close()
	} else {
		b.Strings("include", n.Paths...)
	}
	b.String("timeField", n.Options.TimeField)
	if n.Options.MetaField != "" {
		b.String("metaField", n.Options.MetaField)
	}
	b.Int("bucketMaxSpanSeconds", n.Options.MaxSpanSeconds)
	if n.Filter != nil {
		b.Doc("eventFilter", match.Serialize(n.Filter))
	}
	return b.Close().Finish()
}

// write writes the stage as an element of the stages.
func (s shownStage) write(b *bson.Builder, v Verbosity) {
	b.Fields(s.doc)
	if v > QueryPlanner {
		b.Int64("nReturned", s.stats.Advanced).Int64("executionTimeMillisEstimate", s.stats.Time.Milliseconds())
	}
}
