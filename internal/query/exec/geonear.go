package exec

import (
	"container/heap"
	"context"
	"io"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/geo"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

const (
	// fewNear and manyNear are the numbers of documents in a ring below and above which
	// the next ring is wider or narrower.
	fewNear, manyNear = 300, 600
	// maxNearBytes bounds the documents that a search by distance buffers; it reads
	// others a second time.
	maxNearBytes = 32 << 20
	// probeSteps is how many radii are tried for the first ring, each four times the
	// previous one.
	probeSteps = 15
)

// geoNear returns documents in the order of their distance from a point. It scans the
// index for the cells of a ring around the point, computes the distance of the
// documents there, returns those within the ring, and continues with the next, wider
// ring.
type geoNear struct {
	stats   stage.Stats
	node    *plan.GeoNear
	builder *builder
	grid    geo.Grid // of a 2d index
	flat    bool

	inner, outer float64 // the ring, in the units of Near.Min
	step         float64 // width of the next ring
	limit        float64 // where the last ring ends
	begun, last  bool
	scan         *indexScan // of the ring; nil at its end
	seen         *dedup
	found        nearHeap
	inRing       int
	bytes        int
	sequence     int
	searched     []interval
	closer       io.Closer // of the document of the last row
}

// interval is a ring that was searched, for explain.
type interval struct {
	inner, outer float64
	last         bool
	found, given int64
	scan         stage.Stats
}

// maxIntervals bounds the rings that explain shows.
const maxIntervals = 1000

// nearRow is a measured document.
type nearRow struct {
	distance float64
	sequence int
	record   []byte
	doc      bson.Doc // nil if it must be read again
	point    bson.Value
}

type nearHeap []nearRow

func (h nearHeap) Len() int      { return len(h) }
func (h nearHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *nearHeap) Push(x any)   { *h = append(*h, x.(nearRow)) }

func (h nearHeap) Less(i, j int) bool {
	if h[i].distance != h[j].distance {
		return h[i].distance < h[j].distance
	}
	return h[i].sequence < h[j].sequence
}

func (h *nearHeap) Pop() any {
	old := *h
	last := len(old) - 1
	row := old[last]
	old[last] = nearRow{}
	*h = old[:last]
	return row
}

func (b *builder) geoNear(n *plan.GeoNear) *geoNear {
	s := &geoNear{stats: stage.Stats{Node: n}, node: n, builder: b, seen: newDedup(b.source)}
	s.grid, s.flat = n.Index.Grid()
	farthest := math.Pi * geo.EarthRadius * (1 + 1e-9)
	if n.Near.Near.Point.CRS == geo.Flat {
		farthest = 2 * (s.grid.Max - s.grid.Min)
	}
	s.limit = min(n.Near.Near.Max, farthest)
	s.outer = n.Near.Near.Min
	return s
}

func (s *geoNear) Stats() *stage.Stats { return &s.stats }

func (s *geoNear) Inputs() []stage.Stage {
	if s.scan == nil {
		return nil
	}
	return []stage.Stage{s.scan}
}

func (s *geoNear) Close() error {
	s.release()
	return s.endScan()
}

// save releases the document of the last row, which has been returned.
func (s *geoNear) save() error { s.release(); return nil }

func (s *geoNear) restore() error { return s.node.Index.Handle.(*catalog.Index).Check() }

func (s *geoNear) release() {
	if s.closer != nil {
		s.closer.Close()
		s.closer = nil
	}
}

// endScan closes the scan of a ring and keeps its counters.
func (s *geoNear) endScan() error {
	if s.scan == nil {
		return nil
	}
	scan := s.scan
	s.scan = nil
	s.stats.KeysExamined += scan.stats.KeysExamined
	s.stats.Seeks += scan.stats.Seeks
	if at := s.ringNow(); at != nil {
		at.scan = scan.stats
	}
	return scan.Close()
}

func (s *geoNear) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	s.release()
	if s.scan != nil {
		return s.advance(ctx, row)
	}
	if s.begun && len(s.found) > 0 && (s.found[0].distance < s.outer || s.last) {
		return s.emit(row)
	}
	if s.last || s.outer > s.limit {
		return s.stats.Count(stage.EOF), nil
	}
	if !s.begun {
		s.begun = true
		if err := s.probe(ctx); err != nil {
			return stage.EOF, err
		}
	}
	s.widen()
	return s.stats.Count(stage.NeedTime), nil
}

// widen starts the next ring.
func (s *geoNear) widen() {
	switch {
	case s.inRing < fewNear:
		s.step *= 2
	case s.inRing > manyNear:
		s.step /= 2
	}
	s.inRing = 0
	s.inner, s.outer = s.outer, min(s.outer+s.step, s.limit)
	s.last = s.outer >= s.limit
	s.scan = s.scanOf(s.ring(s.inner, s.outer))
	if len(s.searched) < maxIntervals {
		s.searched = append(s.searched, interval{inner: s.inner, outer: s.outer, last: s.last})
	}
}

// ringNow is the ring that was begun last, or nil.
func (s *geoNear) ringNow() *interval {
	if len(s.searched) == 0 {
		return nil
	}
	return &s.searched[len(s.searched)-1]
}

// ring returns the bounds for documents at distances from inner to outer. A 2d index is
// scanned for all within outer; records that were seen before are skipped.
func (s *geoNear) ring(inner, outer float64) []plan.Intervals {
	p := &s.node.Near.Near.Point
	if s.flat {
		return s.node.HashBounds(s.grid.Ranges(p.FlatAround(outer)))
	}
	return s.node.CellBounds(p.AnnulusRanges(inner, outer))
}

func (s *geoNear) scanOf(bounds []plan.Intervals) *indexScan {
	n := &plan.IndexScan{Index: s.node.Index, Bounds: bounds}
	scan := s.builder.scan(n, n.Index, bounds, false)
	return &scan
}

// probe finds a width for the first ring: about as far as the nearest
// document.
func (s *geoNear) probe(ctx context.Context) error {
	for i := probeSteps; i > 0; i-- {
		bounds := s.around(i)
		scan := s.scanOf(bounds)
		var row stage.Row
		state := stage.NeedTime
		var err error
		for state == stage.NeedTime && err == nil {
			state, err = scan.Work(ctx, &row)
		}
		s.stats.KeysExamined += scan.stats.KeysExamined
		s.stats.Seeks += scan.stats.Seeks
		if cerr := scan.Close(); err == nil {
			err = cerr
		}
		if err != nil || state == stage.Advanced {
			return err
		}
	}
	s.step = s.limit
	return nil
}

// around sets the step to the i-th radius from the largest one and returns the bounds
// of that radius.
func (s *geoNear) around(i int) []plan.Intervals {
	p := &s.node.Near.Near.Point
	if s.flat {
		s.step = s.limit / math.Pow(4, float64(i))
		return s.node.HashBounds(s.grid.Ranges(p.FlatAround(s.step)))
	}
	cells, metres := p.Neighbours(min(2*i, geo.FinestNeighbours))
	s.step = metres
	return s.node.CellBounds(cells)
}

// advance reads one more entry of the ring and computes the distance of its document.
func (s *geoNear) advance(ctx context.Context, row *stage.Row) (stage.State, error) {
	state, err := s.scan.Work(ctx, row)
	if err != nil {
		return stage.EOF, err
	}
	switch state {
	case stage.EOF:
		err = s.endScan()
	case stage.Advanced:
		err = s.measure(row.Record)
	}
	return s.stats.Count(stage.NeedTime), err
}

func (s *geoNear) measure(record []byte) error {
	s.stats.DupsTested++
	dup, err := s.seen.add(record)
	if err != nil || dup {
		s.stats.DupsDropped++
		return err
	}
	doc, closer, err := s.builder.source.fetch(record)
	if err != nil || doc == nil {
		return err
	}
	defer closer.Close()
	s.stats.DocsExamined++
	near := s.node.Near.Near
	distance, point, ok := nearest(s.node.Index.Parts[s.node.Part].Values(doc), near.Point)
	if !ok || distance < near.Min || distance > near.Max {
		return nil
	}
	r := nearRow{distance: distance, sequence: s.sequence, record: append([]byte(nil), record...)}
	s.sequence++
	if size := len(doc) + len(point.Data); s.bytes+size <= maxNearBytes {
		s.bytes += size
		r.doc, r.point = doc.Clone(), point.Clone()
	}
	if distance < s.outer {
		s.inRing++
	}
	if at := s.ringNow(); at != nil {
		at.found++
	}
	heap.Push(&s.found, r)
	return nil
}

// nearest finds the geometry among values, and among the elements of those
// that are arrays, that is nearest to p.
func nearest(values []bson.Value, p geo.Point) (distance float64, at bson.Value, ok bool) {
	try := func(v bson.Value) bool {
		if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
			return false
		}
		g, err := geo.ParseStored(v)
		if err != nil {
			return false
		}
		if d, measured := g.Distance(p); measured && (!ok || d < distance) {
			distance, at, ok = d, v, true
		}
		return true
	}
	for _, v := range values {
		if !try(v) && v.Type == bson.TypeArray {
			for e := range v.Doc().Values() {
				try(e)
			}
		}
	}
	return distance, at, ok
}

// emit returns the nearest document that was found.
func (s *geoNear) emit(row *stage.Row) (stage.State, error) {
	r := heap.Pop(&s.found).(nearRow)
	if r.doc == nil {
		doc, closer, err := s.builder.source.fetch(r.record)
		if err != nil {
			return stage.EOF, err
		}
		if doc == nil {
			return s.stats.Count(stage.NeedTime), nil
		}
		r.doc, s.closer = doc, closer
		if _, point, ok := nearest(s.node.Index.Parts[s.node.Part].Values(doc), s.node.Near.Near.Point); ok {
			r.point = point.Clone()
		}
	} else {
		s.bytes -= len(r.doc) + len(r.point.Data)
	}
	if at := s.ringNow(); at != nil {
		at.given++
	}
	if s.builder.source.isExpired(r.record, r.doc) {
		return s.stats.Count(stage.NeedTime), nil
	}
	*row = stage.Row{Record: r.record, Doc: r.doc, Index: s.node.Index, Meta: &stage.Meta{Distance: s.node.Near.Near.Report(r.distance), Point: r.point}}
	s.builder.source.setDue(row)
	return s.stats.Count(stage.Advanced), nil
}

// searchByDistance moves the $geoNear at the start of a pipeline into the query.
// Errors: 26 if there is no collection, 27 if the index is ambiguous, and those of the
// stage's arguments.
func searchByDistance(c *catalog.Collection, q *Query, p *pipeline.Pipeline) error {
	stage := p.First()
	if stage == nil {
		return nil
	}
	if c == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "$geoNear requires an existing collection with a geospatial index")
	}
	key := stage.Key
	if key == "" {
		var err error
		if key, err = onlyGeoPath(c); err != nil {
			return err
		}
	}
	f, err := stage.Query(key, q.Env)
	if err != nil {
		return err
	}
	q.Filter = f
	return nil
}

// onlyGeoPath is the path of the only 2d index, or else of the only 2dsphere
// index: error 27.
func onlyGeoPath(c *catalog.Collection) (string, error) {
	for _, plugin := range []string{"2d", "2dsphere"} {
		found := ""
		for _, ix := range c.Indexes() {
			if ix.Plugin != plugin || !ix.Ready || ix.Hidden {
				continue
			}
			if found != "" {
				return "", mongoerr.New(mongoerr.IndexNotFound, "There is more than one %s index on %s; unsure which to use for $geoNear", plugin, c.Namespace)
			}
			for _, part := range ix.Parts {
				if part.Plugin == plugin {
					found = part.Path
					break
				}
			}
		}
		if found != "" {
			return found, nil
		}
	}
	return "", mongoerr.New(mongoerr.IndexNotFound, "$geoNear requires a 2d or 2dsphere index, but none were found")
}

// describeSearch writes the rings that were searched, and the statistics of each scan
// as input stages.
func (s *geoNear) describeSearch(b *bson.Builder) {
	b.OpenArray("searchIntervals")
	for i, at := range s.searched {
		b.OpenDoc(bson.Index(i)).Double("minDistance", at.inner).Double("maxDistance", at.outer).Bool("maxInclusive", at.last).
			Int("nBuffered", at.found).Int("nReturned", at.given).Close()
	}
	b.Close().OpenArray("inputStages")
	for i, at := range s.searched {
		st := at.scan
		if s.scan != nil && i == len(s.searched)-1 {
			st = s.scan.stats
		}
		scan, ok := st.Node.(*plan.IndexScan)
		if !ok {
			continue
		}
		fetch := &plan.Fetch{Input: scan}
		below := &indexScan{stats: st}
		d := plan.Explain(fetch, countersOf(&fetchedRing{stage.Stats{
			Node: fetch, Works: st.Works, Advanced: st.Advanced, NeedTime: st.NeedTime, EOF: st.EOF, DocsExamined: st.Advanced,
		}, below}), explainRoom(b))
		b.Doc(bson.Index(i), d)
	}
	b.Close()
}

// fetchedRing shows what a search did with the rows of a ring's scan as a FETCH stage.
type fetchedRing struct {
	stats stage.Stats
	*indexScan
}

func (s *fetchedRing) Stats() *stage.Stats   { return &s.stats }
func (s *fetchedRing) Inputs() []stage.Stage { return []stage.Stage{s.indexScan} }
