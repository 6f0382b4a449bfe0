package plan

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// sortMemLimit is the memory an in-memory sort may take before it spills
// (internalQueryMaxBlockingSortMemoryUsageBytes).
const sortMemLimit = 100 << 20

// Counters writes the execution counters of a node into b, or nothing where
// only the plan is explained. It is called twice for each node: with
// specific false if the counters that all stages have belong, and with
// specific true if the stage's own do.
type Counters func(n Node, b *bson.Builder, specific bool)

// MaxExplain is how large a plan that Explain prints is, in bytes, before stages
// and bounds are left out (internalQueryExplainSizeThresholdBytes).
const MaxExplain = 10 << 20

// Explain prints a plan as the server's explain does. Stages and bounds that would
// make it larger than room, in bytes, are replaced by warnings.
func Explain(n Node, counters Counters, room int) bson.Doc {
	var b bson.Builder
	explain(&b, n, counters, room)
	return b.Finish()
}

func explain(b *bson.Builder, n Node, counters Counters, room int) {
	var filter bson.Doc
	f, owned := match.WithoutOwned(filterOf(n))
	if f != nil {
		filter = match.Serialize(f)
	}
	if b.Len()+len(filter) > room {
		b.String("warning", "stats tree exceeded BSON size limit for explain")
		return
	}
	if owned { // the condition that mongod has in a stage of its own
		b.String("stage", "SHARDING_FILTER")
		if counters != nil {
			counters(n, b, false)
		}
		defer b.Close()
		b.OpenDoc("inputStage")
	}
	b.String("stage", n.Stage())
	if filter != nil {
		b.Doc("filter", filter)
	}
	if counters != nil {
		counters(n, b, false)
	}
	describe(b, n, room)
	if counters != nil {
		counters(n, b, true)
	}
	ins := n.Inputs()
	switch n.(type) {
	case *Or, *SortMerge, *AndSorted:
		b.OpenArray("inputStages")
		for i, in := range ins {
			b.OpenDoc(bson.Index(i))
			explain(b, in, counters, room)
			b.Close()
		}
		b.Close()
	default:
		for _, in := range ins {
			b.OpenDoc("inputStage")
			explain(b, in, counters, room)
			b.Close()
		}
	}
}

func filterOf(n Node) match.Node {
	switch n := n.(type) {
	case *CollScan:
		return n.Filter
	case *Fetch:
		return n.Filter
	case *IndexScan:
		return n.Filter
	case *TextOr:
		return n.Filter
	case *Unpack:
		return n.Filter
	}
	return nil
}

func direction(backward bool) string {
	if backward {
		return "backward"
	}
	return "forward"
}

// describe writes the fields of n's kind.
func describe(b *bson.Builder, n Node, room int) {
	switch n := n.(type) {
	case *CollScan:
		b.String("direction", direction(n.Backward))
		if n.Range != nil {
			l := n.Range.Bounds[0]
			if len(l) > 0 {
				lo, hi := l[0].Lo, l[len(l)-1].Hi
				if m := n.Range.Min; len(m) > 0 {
					lo = m[0]
				}
				if m := n.Range.Max; len(m) > 0 {
					hi = m[0]
				}
				if n.Range.Index.Parts[0].Path != "_id" { // the order of buckets
					lo, hi = bucketID(lo, 0), bucketID(hi, 0xff)
				}
				b.Value("minRecord", lo).Value("maxRecord", hi)
			}
		}
	case *Express:
		describeExpress(b, n)
	case *GeoNear:
		describeGeoNear(b, n)
	case *Distance:
		describeDistance(b, n)
	case *TextMatch:
		describeText(b, n)
	case *IDHack:
		b.Doc("keyPattern", new(bson.Builder).Int32("_id", 1).Finish()).String("indexName", "_id_")
	case *IndexScan:
		describeIndex(b, n.Index)
		b.String("direction", direction(n.Backward))
		describeBounds(b, n.Index, n.Bounds, n.Backward, room)
	case *EOF:
		b.String("type", map[bool]string{true: "nonExistentNamespace", false: "predicateEvalsToFalse"}[n.NoCollection])
	case *CountScan:
		describeIndex(b, n.Index)
		describeRange(b, n.Index, n.Bounds)
	case *DistinctScan:
		describeIndex(b, n.Index)
		b.String("direction", direction(n.Backward))
		describeBounds(b, n.Index, n.Bounds, n.Backward, room)
	case *SortMerge:
		b.Doc("sortPattern", n.Pattern.Spec())
	case *Sort:
		b.Doc("sortPattern", n.Pattern.Spec()).Int64("memLimit", sortMemLimit)
		if n.Limit > 0 {
			b.Int64("limitAmount", n.Limit)
		}
		b.String("type", map[bool]string{true: "default", false: "simple"}[n.Entries])
	case *Skip:
		b.Int64("skipAmount", n.N)
	case *Limit:
		b.Int64("limitAmount", n.N)
	case *Unpack:
		describeUnpack(b, n)
	case *Projection:
		b.Doc("transformBy", n.Spec.Serialize())
	}
}

func describeIndex(b *bson.Builder, ix *Index) {
	b.Doc("keyPattern", ix.Key).String("indexName", ix.Name)
	if ix.Collation != nil {
		b.Doc("collation", ix.Collation)
	}
	b.Bool("isMultiKey", ix.IsMultikey())
	b.OpenDoc("multiKeyPaths")
	for i, p := range ix.Parts {
		b.OpenArray(p.Path)
		n := 0
		for c := range p.Components {
			if ix.multikeyAt(i, c) {
				b.String(bson.Index(n), joinPath(p.Components[:c+1]))
				n++
			}
		}
		b.Close()
	}
	b.Close()
	b.Bool("isUnique", ix.Unique || ix.IsID()).Bool("isSparse", ix.Sparse).Bool("isPartial", ix.Partial != nil)
	b.Int32("indexVersion", ix.Version)
}

func joinPath(cs []string) string {
	s := cs[0]
	for _, c := range cs[1:] {
		s += "." + c
	}
	return s
}

// describeBounds prints the intervals of each part in scan order, or that they are too
// many.
func describeBounds(to *bson.Builder, ix *Index, bounds []Intervals, backward bool, room int) {
	room -= to.Len()
	b := new(bson.Builder)
	for i, l := range bounds {
		b.OpenArray(ix.Parts[i].Path)
		down := ix.Parts[i].Descending != backward
		for j := range l {
			iv := l[j]
			if down {
				iv = l[len(l)-1-j]
			}
			b.String(bson.Index(j), iv.format(down, ix.Collation != nil))
			if b.Len() > room {
				to.String("warning", "index bounds omitted due to BSON size limit for explain")
				return
			}
		}
		b.Close()
	}
	to.Doc("indexBounds", b.Finish())
}

func describeExpress(b *bson.Builder, n *Express) {
	if n.Index != nil {
		b.String("keyPattern", bson.Doc(n.Index.Key).String()).String("indexName", n.Index.Name)
	} else if !n.Clustered {
		b.String("keyPattern", "{ _id: 1 }").String("indexName", "_id_")
	}
	if n.Projection != nil {
		b.Doc("projection", n.Projection.Serialize()).Bool("projectionCovered", false)
	}
}

// opposite returns the opposite extreme value.
func opposite(end bson.Value) bson.Value {
	if end.Type == bson.TypeMinKey {
		return bson.MaxKey
	}
	return bson.MinKey
}

// describeRange prints the ends of bounds that are one range of keys.
func describeRange(b *bson.Builder, ix *Index, bounds []Intervals) {
	var start, end bson.Builder
	startInc, endInc := true, true
	for i, l := range bounds {
		if len(l) == 0 {
			continue
		}
		lo, hi, loInc, hiInc := l[0].Lo, l[0].Hi, l[0].LoInc, l[0].HiInc
		if ix.Parts[i].Descending {
			lo, hi, loInc, hiInc = hi, lo, hiInc, loInc
		}
		if l.IsAll() { // behind all keys that are excluded, or before them
			if !startInc {
				lo = opposite(lo)
			}
			if !endInc {
				hi = opposite(hi)
			}
		}
		start.Value(ix.Parts[i].Path, lo)
		end.Value(ix.Parts[i].Path, hi)
		startInc, endInc = startInc && loInc, endInc && hiInc
	}
	b.OpenDoc("indexBounds").Doc("startKey", start.Finish()).Bool("startKeyInclusive", startInc).
		Doc("endKey", end.Finish()).Bool("endKeyInclusive", endInc).Close()
}
