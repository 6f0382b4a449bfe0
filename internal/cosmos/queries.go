package cosmos

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// isQuery reports whether a POST is a query.
func (r *request) isQuery() bool {
	return strings.HasPrefix(strings.ToLower(r.header("Content-Type")), "application/query+json") ||
		r.flag("X-Ms-Documentdb-Isquery") || r.flag("X-Ms-Documentdb-Query") || r.flag("X-Ms-Cosmos-Is-Query-Plan-Request")
}

// parseQuery reads {query, parameters}; parse reads the text. Errors: 400.
func parseQuery(body bson.Doc, parse func(text string) (*nosql.Query, error)) (*nosql.Query, error) {
	text := body.Lookup("query")
	if text.Type != bson.TypeString {
		return nil, badRequest("The request has no query.")
	}
	params, err := parameters(body)
	if err != nil {
		return nil, err
	}
	q, err := parse(text.Str())
	if err != nil {
		return nil, err
	}
	return q.With(params), nil
}

// parseText parses the text of a query over resources.
func parseText(text string) (*nosql.Query, error) { return nosql.Parse(text, nil, nil) }

// parameters reads the parameters of a query, by name without the @. Errors:
// 400.
func parameters(body bson.Doc) (map[string]bson.Value, error) {
	params := map[string]bson.Value{}
	if ps := body.Lookup("parameters"); ps.Type == bson.TypeArray {
		for p := range ps.Doc().Values() {
			if p.Type != bson.TypeDocument || p.Doc().Lookup("name").Type != bson.TypeString {
				return nil, badRequest("A parameter of the query has no name.")
			}
			name := p.Doc().Lookup("name").Str()
			if !strings.HasPrefix(name, "@") || len(name) < 2 {
				return nil, badRequest("The parameter name '%s' is invalid: it must begin with '@'.", name)
			}
			if _, twice := params[name[1:]]; twice {
				return nil, badRequest("The parameter '%s' is given twice.", name)
			}
			params[name[1:]] = p.Doc().Lookup("value")
		}
	}
	return params, nil
}

// queryResources runs a query over databases, containers or offers.
func (r *request) queryResources(body bson.Doc, rid, name string, docs []bson.Doc) error {
	q, err := parseQuery(body, parseText)
	if err != nil {
		return err
	}
	size, err := r.pageSize()
	if err != nil {
		return err
	}
	from, err := r.continuation()
	if err != nil {
		return err
	}
	rows, skip := &rowWriter{hold: r.held.Hold(nil)}, from.rows
	run := q.Start(r.s.clock.At(r.now), func(v bson.Value) bool {
		switch {
		case skip > 0:
			skip--
		case rows.full(size):
			r.w.Header().Set("X-Ms-Continuation", place{rows: from.rows + int64(rows.n)}.token())
			return false
		default:
			rows.add(v)
		}
		return true
	})
	r.bound(run)
	for _, d := range docs {
		if more, err := run.Add(d); err != nil {
			return err
		} else if !more {
			break
		}
	}
	if err := run.Finish(); err != nil {
		return err
	}
	r.charge = chargeQuery
	return r.sendFeedOf(rid, name, rows)
}

// query runs a query over items.
func (r *request) query(c *container) error {
	body, err := r.object()
	if err != nil {
		return err
	}
	r.asked.Store(&body)
	q, err := parseQuery(body, c.queries.parse)
	if err != nil {
		return err
	}
	shape, text := q.Shape(), body.Lookup("query").Str()
	across := strings.HasSuffix(text, acrossRanges)
	if err := c.checkOrder(shape); err != nil {
		return err
	}
	if r.flag("X-Ms-Cosmos-Is-Query-Plan-Request") {
		if r.header("X-Ms-Cosmos-Supported-Query-Features") == "" {
			return badRequest("Query contains 1 or more unsupported features. Upgrade your SDK to a version that does support the requested features.")
		}
		return r.sendDoc(http.StatusOK, r.queryPlan(shape, text))
	}
	key, err := r.keyHeader(c.key)
	if err != nil {
		return err
	}
	if key == nil {
		key = c.key.fixed(q)
		// An SDK sends the query to each range: that of the key answers it.
		if key != nil && !across && r.s.o.Cluster != nil && r.header(rangeHeader) != "" {
			k, err := r.scope()
			if err != nil {
				return err
			}
			if !k.has(key) {
				return r.sendFeed(c.rid, "Documents", nil)
			}
		}
	}
	if r.s.o.Cluster != nil && len(key) == len(c.key.paths) {
		return r.onPartition(func(*container) ([]bson.Value, error) { return key, nil })
	}
	if err := r.checkScope(key, shape, text); err != nil {
		return err
	}
	var within bson.Doc
	if !across && key == nil {
		k, err := r.scope()
		if err != nil {
			return err
		}
		within = k.filter()
	}
	return r.page(c, q, shape, key, within, string(body)+r.header("X-Ms-Documentdb-Partitionkey"))
}

// checkOrder checks that ORDER BY has an index: the policy must include a single
// property, and several need a composite index. Errors:
// 400.
func (c *container) checkOrder(s nosql.Shape) error {
	switch len(s.OrderByPaths) {
	case 0:
		return nil
	case 1:
		if path := s.OrderByPaths[0]; path == "" || c.indexing.indexesDotted(path) {
			return nil
		}
		return badRequest("The index path corresponding to the specified order-by item is excluded.")
	}
	if c.indexing.sorting(s) != nil {
		return nil
	}
	return badRequest("The order by query does not have a corresponding composite index that it can be served from.")
}

// checkScope rejects queries that the service's gateway does not answer across
// partitions, unless the request names a range or the server answers all. Errors: 400,
// with the plan if the SDK is to continue with it.
func (r *request) checkScope(key []bson.Value, s nosql.Shape, text string) error {
	if key != nil || r.header(rangeHeader) != "" || r.s.o.CrossPartition {
		return nil
	}
	if !r.flag("X-Ms-Documentdb-Query-Enablecrosspartition") {
		return badRequest("Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, specify " +
			"x-ms-documentdb-partitionkey, or revise your query to avoid this exception.")
	}
	if s.GroupBy || len(s.Aggregates) > 0 && !s.Value {
		return badRequest("Cross partition query only supports 'VALUE <AggregateFunc>' for aggregates.")
	}
	if spans(s) {
		e := badRequest("The provided cross partition query can not be directly served by the gateway. This is a first chance (internal) exception that all " +
			"newer clients will know how to handle gracefully. This exception is traced, but unless you see it bubble up as an exception (which only " +
			"happens on older SDK clients), then you can safely ignore this message.")
		e.Substatus, e.Plan = substatusCrossPartition, r.queryPlan(s, text)
		return e
	}
	return nil
}

// spans reports whether the rows of several ranges are not those of each, one after the other.
func spans(s nosql.Shape) bool {
	return len(s.Aggregates) > 0 || s.GroupBy || s.OrderBy || s.Top || s.OffsetLimit || s.Distinct
}

// acrossRanges ends a query that a plan has rewritten: it is answered whole, whichever range it
// is sent to.
const acrossRanges = "\n-- across all ranges"

// queryPlan is a plan that leaves all work to the server, and nothing for the SDK to merge. In
// a cluster, where there are several ranges, the SDK is to send a query that spans them to one:
// the range with the lowest hash.
func (r *request) queryPlan(s nosql.Shape, text string) bson.Doc {
	rewritten, high, inclusive := "", highest, false
	if r.s.o.Cluster != nil && (spans(s) || s.Staged) {
		rewritten, high, inclusive = strings.TrimSuffix(text, acrossRanges)+acrossRanges, lowest, true
	}
	var b bson.Builder
	b.Int32("partitionedQueryExecutionInfoVersion", 2)
	b.OpenDoc("queryInfo").String("distinctType", "None").Value("top", bson.Value{Type: bson.TypeNull}).Value("offset", bson.Value{Type: bson.TypeNull}).
		Value("limit", bson.Value{Type: bson.TypeNull}).Array("orderBy", bson.Empty).Array("orderByExpressions", bson.Empty).
		Array("groupByExpressions", bson.Empty).Array("groupByAliases", bson.Empty).Array("aggregates", bson.Empty).
		Doc("groupByAliasToAggregateType", bson.Empty).String("rewrittenQuery", rewritten).Bool("hasSelectValue", s.Value).
		Value("dCountInfo", bson.Value{Type: bson.TypeNull}).Bool("hasNonStreamingOrderBy", false).Close()
	b.OpenArray("queryRanges").OpenDoc("0").String("min", lowest).String("max", high).Bool("isMinInclusive", true).Bool("isMaxInclusive", inclusive).Close().Close()
	return b.Finish()
}

// The sizes of pages, in items; a page also ends at maxPageBytes.
const (
	defaultPage  = 1000
	largestPage  = 2500
	maxPageBytes = 4 << 20
)

func (r *request) pageSize() (int, error) {
	h := r.header("X-Ms-Max-Item-Count")
	if h == "" || h == "0" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(h)
	switch {
	case err != nil:
		return 0, badRequest("The page size '%s' is not a number.", h)
	case n < 0 || n > largestPage:
		return largestPage, nil
	}
	return n, nil
}

// page runs a query for one page, and sends it. key is a partition key or a prefix of one,
// nil for all items; within is a filter for a range, or nil. identity is the query's text and
// everything else that its rows depend on.
func (r *request) page(c *container, q *nosql.Query, s nosql.Shape, key []bson.Value, within bson.Doc, identity string) error {
	size, err := r.pageSize()
	if err != nil {
		return err
	}
	from, err := r.continuation()
	if err != nil {
		return err
	}
	p := &pager{r: r, c: c, q: q, shape: s, within: within, from: from, size: size, whole: !q.NeedsItems() || s.Staged || s.OrderBy || s.GroupBy || s.Distinct || s.Top || s.OffsetLimit || len(s.Aggregates) > 0}
	p.unordered = len(s.Aggregates) > 0 && !s.GroupBy
	p.identity = identity + r.header(startHeader) + r.header(endHeader)
	if p.part, err = r.part(c); err != nil {
		return err
	}
	room := pageRoom.Get().(*[]byte)
	p.rows.out, p.rows.hold, p.restHold = (*room)[:0], r.held.Hold(nil), r.held.Hold(nil)
	defer func() {
		if cap(p.rows.out) <= maxPageRoom {
			*room = p.rows.out
			pageRoom.Put(room)
		}
	}()
	if from.kept == 0 || !p.keptPage() {
		if err := p.run(key); err != nil {
			return err
		}
		p.keep()
	}
	h := r.w.Header()
	if p.next != nil {
		h.Set("X-Ms-Continuation", p.next.token())
	}
	if r.flag("X-Ms-Documentdb-Populatequerymetrics") {
		h.Set("X-Ms-Documentdb-Query-Metrics", p.metrics())
	}
	if r.flag("X-Ms-Cosmos-Populateindexmetrics") || r.flag("X-Ms-Cosmos-Populateindexmetrics-V2") {
		h.Set("X-Ms-Cosmos-Index-Utilization", p.indexMetrics())
	}
	r.op.Stats.NReturned = int64(p.rows.n)
	r.charge = chargeQuery + float64(p.retrieved)/100
	return r.sendFeedOf(c.rid, "Documents", &p.rows)
}

// pageRoom is a pool of memory for pages and items, []byte.
var pageRoom = sync.Pool{New: func() any { return new([]byte) }}

// maxPageRoom bounds a pooled buffer, in bytes.
const maxPageRoom = 128 << 10

// pager runs a query over the items of a container, for one page.
type pager struct {
	r      *request
	c      *container
	q      *nosql.Query
	shape  nosql.Shape
	within bson.Doc // the range, or nil
	part   *keyPart // the part of it, or nil
	from   place
	size   int
	whole  bool // rows are returned only after all items: the place counts rows

	rows      rowWriter
	item      []byte // buffer for the current item
	next      *place // nil at the end
	skip      int64  // rows still to skip
	current   int64  // number of the current item
	inItem    int64  // rows of it so far
	retrieved int
	examined  int64 // items that the executor read
	unordered bool  // the order of the items does not matter
	inOrder   bool  // the scan is in the order of an ORDER BY

	selecting *nosql.Run
	placed    bool            // rows have places for continuations
	behind    *nosql.RowPlace // where the page begins, or nil
	last      string          // the place of the page's last row; see rowPlace

	// Rows after the page, which are cached for the next ones.
	identity   string
	collecting bool
	rest       []keptRow
	restSize   int
	restHold   memory.Holding
	lsn        int64
	until      int64
}

func (p *pager) run(key []bson.Value) error {
	p.skip = p.from.rows
	p.placed = p.whole && p.q.NeedsItems() && !p.shape.GroupBy && !p.shape.Staged && len(p.shape.Aggregates) == 0
	p.lsn, p.until = p.c.writes.Latest(), math.MaxInt64
	p.collecting = p.whole && p.c.collection != nil && p.c.writes.Settled() == p.lsn
	run := p.q.Start(p.r.s.clock.At(p.r.now), p.emit)
	p.selecting = run
	run.Hold(p.r.held.Hold(p.r))
	run.Until(p.r.interrupted)
	if p.placed && p.from.key != "" {
		if err := p.resume(run); err != nil {
			return err
		}
	}
	if p.q.NeedsItems() {
		if err := p.items(run, key); err != nil || p.stopped() {
			return err
		}
	}
	if err := run.Finish(); err != nil {
		return err
	}
	p.wantOrder()
	if p.next != nil {
		return nil
	}
	// Across partitions the service does not know that a full page is the last.
	if key == nil && !p.whole && p.full() {
		p.next = &place{number: p.current}
	}
	return nil
}

// stopped reports whether the page is complete.
func (p *pager) stopped() bool { return p.next != nil && !p.collecting }

func (p *pager) items(run *nosql.Run, key []bson.Value) error {
	if len(key) == len(p.c.key.paths) && p.from.number == 0 {
		if done, err := p.smallPartition(run, key); done || err != nil {
			return err
		}
	}
	filter, paths := p.filter(key)
	if done, err := p.itemsInOrder(run, filter); done || err != nil {
		return err
	}
	var sort bson.Doc
	if !p.unordered {
		sort = new(bson.Builder).Int32(fieldNumber, 1).Finish()
	}
	var err error
	p.examined, err = p.r.find(p.c.collection, filter, sort, 0, func(d bson.Doc) (bool, error) { return p.take(run, d) })
	if err == nil && p.c.collection != nil {
		p.r.s.improve(p.c, paths, p.examined, int64(p.retrieved))
	}
	return err
}

// take runs the query over the next item, in the order of the feed; false if the page
// needs no more.
func (p *pager) take(run *nosql.Run, d bson.Doc) (bool, error) {
	var b bson.Builder
	item, number, expires := p.c.view(b.Reset(p.item[:0]), d)
	p.item = item
	if expires <= p.r.expiryTime || !p.part.has(d) {
		return true, nil
	}
	p.until = min(p.until, expires)
	if !p.whole && p.full() {
		// Between two items: the next page begins with this one.
		p.next = &place{number: number - 1}
		return false, nil
	}
	p.retrieved++
	if !p.whole && p.retrieved == 1 && number != p.from.number+1 {
		p.skip = 0 // the item of the rows to skip was removed
	}
	p.current, p.inItem = number, 0
	run.Number(number)
	more, err := run.Add(item)
	return more && !p.stopped(), err
}

// filter returns a filter for the items that the query can match; paths are the
// properties in it.
func (p *pager) filter(key []bson.Value) (bson.Doc, []nosql.FilterPath) {
	var parts []bson.Doc
	if key != nil {
		parts = append(parts, p.c.key.partition(key))
	}
	if p.within != nil {
		parts = append(parts, p.within)
	}
	switch {
	case !p.whole && p.from.number > 0:
		parts = append(parts, new(bson.Builder).OpenDoc(fieldNumber).Int64("$gt", p.from.number).Close().Finish())
	case p.behind != nil && !p.shape.OrderBy && !p.shape.Distinct:
		parts = append(parts, new(bson.Builder).OpenDoc(fieldNumber).Int64("$gte", p.behind.Number).Close().Finish())
	}
	f, paths := p.q.Filter()
	if !f.IsEmpty() {
		parts = append(parts, f)
	}
	if len(parts) == 0 {
		return bson.Empty, nil
	}
	var b bson.Builder
	b.OpenArray("$and")
	for i, d := range parts {
		b.Doc(bson.Index(i), d)
	}
	return b.Close().Finish(), paths
}

func (p *pager) full() bool { return p.rows.full(p.size) }

// emit adds one row of the query.
func (p *pager) emit(v bson.Value) bool {
	p.inItem++
	if p.skip > 0 {
		p.skip--
		return true
	}
	if p.full() {
		if p.whole {
			if p.next == nil {
				p.next = &place{rows: p.from.rows + int64(p.rows.n), key: p.last}
			}
			return p.collecting && p.collect(keptRow{nosql.AppendJSON(nil, v), p.rowPlace()})
		}
		p.next = &place{number: p.current - 1, rows: p.inItem - 1}
		return false
	}
	p.rows.add(v)
	if p.whole && p.full() {
		p.last = p.rowPlace()
	}
	return true
}

// utilization is the share of the items read that the query selects from.
func (p *pager) utilization() float64 {
	if p.examined == 0 {
		return 1
	}
	return min(1, float64(p.retrieved)/float64(p.examined))
}

// metrics adds the metrics of the query that the request asks for.
func (p *pager) metrics() string {
	names := []string{
		"totalExecutionTimeInMs", "queryCompileTimeInMs", "queryLogicalPlanBuildTimeInMs", "queryPhysicalPlanBuildTimeInMs", "queryOptimizationTimeInMs",
		"VMExecutionTimeInMs", "indexLookupTimeInMs", "documentLoadTimeInMs", "systemFunctionExecuteTimeInMs", "userFunctionExecuteTimeInMs",
		"retrievedDocumentCount", "retrievedDocumentSize", "outputDocumentCount", "outputDocumentSize", "writeOutputTimeInMs", "indexUtilizationRatio",
	}
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(n)
		b.WriteByte('=')
		switch n {
		case "totalExecutionTimeInMs":
			b.WriteString(strconv.FormatFloat(float64(time.Since(p.r.now).Microseconds())/1000, 'f', 2, 64))
		case "retrievedDocumentCount":
			b.WriteString(strconv.FormatInt(p.examined, 10))
		case "outputDocumentCount":
			b.WriteString(strconv.Itoa(p.rows.n))
		case "retrievedDocumentSize", "outputDocumentSize":
			b.WriteString(strconv.Itoa(len(p.rows.out)))
		case "indexUtilizationRatio":
			b.WriteString(strconv.FormatFloat(p.utilization(), 'f', 2, 64))
		default:
			b.WriteString("0.00")
		}
	}
	return b.String()
}

// itemsFeed is the query of the read feed, SELECT *.
var itemsFeed = func() *nosql.Query {
	q, err := nosql.Parse("SELECT * FROM c", nil, nil)
	if err != nil {
		panic(err) // the text is a constant
	}
	return q
}

// getItems serves a read feed or, if A-IM says so, a change feed.
func (r *request) getItems() error {
	c, err := r.container()
	if err != nil {
		return err
	}
	if r.header("A-Im") != "" {
		return r.changeFeed(c)
	}
	key, err := r.keyHeader(c.key)
	if err != nil {
		return err
	}
	if r.s.o.Cluster != nil && len(key) == len(c.key.paths) {
		return r.onPartition(func(*container) ([]bson.Value, error) { return key, nil })
	}
	var within bson.Doc
	if key == nil {
		k, err := r.scope()
		if err != nil {
			return err
		}
		within = k.filter()
	}
	return r.page(c, itemsFeed(), nosql.Shape{}, key, within, "")
}
