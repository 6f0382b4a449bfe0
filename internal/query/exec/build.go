package exec

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/query/exec/keyrange"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// builder builds stages from plan nodes.
type builder struct {
	source *source
	env    *expr.Env

	interrupt expr.Interrupt
	memory    *QueryMemory  // of one run; nil for none
	coll      bson.Collator // of the query
	// spillDir is where sorts may spill, or "".
	spillDir string
	count    int64 // the collection's own count
	above    int   // stages above that read the documents
	meta     *metaReader
	open     []measurements.Source // of a time-series collection, those with open measurements
	// fields are those that the reader needs; nil for all.
	fields []string
	// belowBlocking says that there are other stages than limits and projections
	// between the next node and the reader. rowLimit is the limit that these impose on
	// its rows; 0 for none.
	belowBlocking bool
	rowLimit      int64
	batch         int64 // see Query
	// fullyConsumed says that the reader consumes all rows before it uses any.
	fullyConsumed bool
	// parallelizable says that goroutines may run for the plan between two rows.
	parallelizable bool
	// keyed says that the reader uses the index keys of rows.
	keyed bool
}

func (b *builder) build(n plan.Node) stage.Stage {
	b.interrupt.Turn()
	if readsDocuments(n) {
		b.above++
		defer func() { b.above-- }()
	}
	below, rowLimit, consumed := b.belowBlocking, b.rowLimit, b.fullyConsumed
	defer func() { b.belowBlocking, b.rowLimit, b.fullyConsumed = below, rowLimit, consumed }()
	switch n := n.(type) {
	case *plan.Limit:
		b.rowLimit = n.N
	case *plan.Skip:
		if rowLimit > 0 {
			b.rowLimit += n.N
		}
	case *plan.Projection:
	case *plan.Fetch:
		return b.fetch(n)
	case *plan.Sort:
		b.belowBlocking, b.rowLimit, b.fullyConsumed = true, 0, true
	case *plan.Count:
		b.belowBlocking, b.rowLimit, b.fullyConsumed = true, 0, n.Limit == 0
	default:
		b.belowBlocking, b.rowLimit, b.fullyConsumed = true, 0, false
	}
	return b.stage(n)
}

// fetch builds a fetch, which prefetches if all its rows come from one scan.
func (b *builder) fetch(n *plan.Fetch) *fetch {
	s := &fetch{stats: stage.Stats{Node: n}, source: b.source, filter: stage.NewFilter(n.Filter, b.env)}
	s.prefetch.parallelizable, s.prefetch.batch, s.prefetch.memory = b.parallelizable, b.batch, b.source.hold()
	s.prefetch.fullyConsumed = b.fullyConsumed && (s.filter == nil || b.rowLimit == 0)
	if s.filter == nil && !b.belowBlocking {
		s.prefetch.rowLimit, s.prefetch.fields = b.rowLimit, b.fields
	}
	b.belowBlocking, b.rowLimit = true, 0
	s.input = b.build(n.Input)
	switch in := s.input.(type) {
	case *indexScan:
		if !in.index.Handle.(*catalog.Index).HasDocuments() {
			s.prefetch.scan = in
		}
	case *skip:
		if in.entries != nil && !in.entries.index.Handle.(*catalog.Index).HasDocuments() {
			s.skips = in
		}
	}
	return s
}

// collScan makes a scan of the collection, within the bounds that it has.
func (b *builder) collScan(n *plan.CollScan) *collScan {
	s := &collScan{stats: stage.Stats{Node: n}, node: n, source: b.source, filter: stage.NewFilter(n.Filter, b.env)}
	if n.Range != nil {
		r := keyrange.Encode(n.Range.Bounds, directions(n.Range.Index), nil)
		r.Clamp(n.Range, directions(n.Range.Index))
		s.lower, s.upper, s.none = r.Lower, r.Upper, r.None
	}
	if v := b.source.coll.Virtual(); v != nil && v.KeyField() != "" && n.Filter != nil {
		s.lower, s.upper = timeBounds(n.Filter, v.KeyField())
		s.none = s.upper != nil && bytes.Compare(s.lower, s.upper) >= 0
	}
	return s
}

// stage makes the stage of a node other than a fetch.
func (b *builder) stage(n plan.Node) stage.Stage {
	switch n := n.(type) {
	case *plan.CollScan:
		return b.collScan(n)
	case *plan.IDHack:
		return &idHack{stats: stage.Stats{Node: n}, source: b.source, id: n.ID}
	case *plan.IndexScan:
		s := b.scan(n, n.Index, n.Bounds, n.Dedup)
		s.backward = n.Backward
		s.filter, s.keyOnly = stage.NewFilter(n.Filter, b.env), !n.Keys
		if n.Index.Handle.(*catalog.Index).HasDocuments() {
			s.keyOnly = false
		} else if n.Keys || n.Filter != nil {
			s.cover = newCover(n.Index, n.Paths)
		}
		s.ranges.Clamp(n, directions(n.Index))
		return &s
	case *plan.GeoNear:
		return b.geoNear(n)
	case *plan.Distance:
		return &distance{stats: stage.Stats{Node: n}, node: n, input: b.build(n.Input), source: b.source, memory: b.source.hold()}
	case *plan.TextOr:
		return b.textOr(n)
	case *plan.TextMatch:
		return &textMatch{stats: stage.Stats{Node: n}, node: n, input: b.build(n.Input)}
	case *plan.CountScan:
		return &countScan{b.scan(n, n.Index, n.Bounds, n.Dedup)}
	case *plan.DistinctScan:
		s := &distinctScan{indexScan: b.scan(n, n.Index, n.Bounds, false), fields: n.Field + 1, elements: n.Elements}
		s.backward = n.Backward
		if n.Elements || !n.Index.Handle.(*catalog.Index).HasDocuments() {
			s.cover = newCover(n.Index, n.Paths)
		}
		if s.groups = n.Groups; n.Groups {
			s.last = true // a group whose first document is hidden may have visible ones
			if b.above > 0 {
				s.cover = nil
			}
		}
		return s
	case *plan.Express:
		return b.express(n)
	case *plan.Subplan:
		return &subplan{stats: stage.Stats{Node: n}, input: b.build(n.Input)}
	case *plan.SortMerge:
		s := &sortMerge{stats: stage.Stats{Node: n}, keys: sortkey.NewGenerator(n.Pattern, b.coll, nil), pattern: n.Pattern}
		if n.Dedup {
			s.seen = newDedup(b.source)
		}
		for _, in := range n.Nodes {
			s.inputs = append(s.inputs, b.build(in))
		}
		s.heads = make([]head, len(s.inputs))
		return s
	case *plan.AndSorted:
		s := &andSorted{stats: stage.Stats{Node: n}}
		for _, in := range n.Nodes {
			s.inputs = append(s.inputs, b.build(in))
		}
		return s
	case *plan.Or:
		s := &or{stats: stage.Stats{Node: n}, seen: newDedup(b.source)}
		for _, in := range n.Nodes {
			s.inputs = append(s.inputs, b.build(in))
		}
		return s
	case *plan.Sort:
		return b.sorter(n)
	case *plan.Skip:
		s := &skip{stats: stage.Stats{Node: n}, input: b.build(n.Input), n: n.N, total: n.N}
		s.entries, _ = s.input.(*indexScan)
		return s
	case *plan.Limit:
		return &limit{stats: stage.Stats{Node: n}, input: b.build(n.Input), n: n.N}
	case *plan.Unpack:
		return b.unpack(n)
	case *plan.Projection:
		return &projection{stats: stage.Stats{Node: n}, input: b.build(n.Input), spec: n.Spec, env: b.env, meta: b.meta}
	case *plan.ReturnKey:
		return &returnKey{stats: stage.Stats{Node: n}, input: b.build(n.Input)}
	case *plan.Write:
		return &wouldWrite{stats: stage.Stats{Node: n}, input: b.build(n.Input), kind: n.Kind}
	case *plan.Count:
		s := &count{stats: stage.Stats{Node: n}, known: b.count, skip: n.Skip, limit: n.Limit}
		if n.Input != nil {
			s.input = b.build(n.Input)
		}
		return s
	}
	return &eof{stats: stage.Stats{Node: n}}
}

func (b *builder) scan(n plan.Node, ix *plan.Index, bounds []plan.Intervals, dedup bool) indexScan {
	s := indexScan{stats: stage.Stats{Node: n}, index: ix, source: b.source, ranges: keyrange.Encode(bounds, directions(ix), nil), last: b.above == 0}
	if dedup {
		s.seen = newDedup(b.source)
		s.seen.own = true
	}
	return s
}
