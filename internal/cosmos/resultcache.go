package cosmos

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/memory"
)

// A query that returns rows only after it has read all items (ORDER BY, GROUP BY, …)
// would be run again for each of its pages. So the rows after its first page are cached
// for the next ones, and the continuation names them. If they are missing, or may be
// outdated, the query is run again.
const (
	// maxResult bounds the cached rows of one query, maxResults those of all if the
	// budget is large, in bytes.
	maxResult  = 16 << 20
	maxResults = 64 << 20
	// resultLife is how long rows are cached.
	resultLife = time.Minute
)

// keptRows are cached rows of a query, from the one with the number first.
type keptRows struct {
	container *container
	query     string // its text with the parameters and the partition key
	lsn       int64  // the last write that the rows include
	until     int64  // the second in which the first item expires
	at        time.Time
	first     int64
	rows      []keptRow
	size      int
}

// keptRow is a row as JSON, with its place (pager.rowPlace).
type keptRow struct {
	json  []byte
	place string
}

// resultCache caches the rows of all queries, in a fixed part of the budget of operations.
type resultCache struct {
	mu    sync.Mutex
	most  int // bytes
	held  memory.Account
	hold  memory.Holding
	kept  map[int64]*keptRows
	order []int64 // as they came
	size  int
	hits  int64 // pages that were served from it
}

// open reserves an empty cache's part of the budget, which may be nil.
func (c *resultCache) open(b *memory.Budget) {
	c.most = int(b.Standing(maxResults))
	c.held.Open(b)
	c.hold = c.held.Hold(nil)
}

// put caches rows, for as long as there is room, and returns their name.
func (c *resultCache) put(k *keptRows) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[int64]*keptRows{}
	}
	id := 1 + rand.Int64N(1<<62)
	c.kept[id] = k
	c.order = append(c.order, id)
	c.size += k.size
	for c.size > 0 && (c.size > c.most || c.hold.Set(c.size) != nil) {
		c.dropFirst()
	}
	return id
}

// dropFirst drops the oldest rows; the caller holds mu.
func (c *resultCache) dropFirst() {
	c.size -= c.kept[c.order[0]].size
	delete(c.kept, c.order[0])
	c.order = c.order[1:]
	if c.hold.Shrink(c.size); c.size == 0 {
		c.hold.Release()
	}
}

// expire drops the rows that are too old.
func (c *resultCache) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.order) > 0 && now.Sub(c.kept[c.order[0]].at) > resultLife {
		c.dropFirst()
	}
}

// get returns the rows with a name, or nil.
func (c *resultCache) get(id int64) *keptRows {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept[id]
}

func (c *resultCache) hit() {
	c.mu.Lock()
	c.hits++
	c.mu.Unlock()
}

// keptPage serves a page from cached rows, if they are still valid: no write has
// happened since, and no item has expired.
func (p *pager) keptPage() bool {
	k := p.r.s.results.get(p.from.kept)
	if k == nil || k.container != p.c || k.query != p.identity || k.lsn != p.c.writes.Latest() || p.r.expiryTime >= k.until ||
		p.r.now.Sub(k.at) > resultLife || p.from.rows < k.first {
		return false
	}
	p.r.s.results.hit()
	rest := k.rows[min(p.from.rows-k.first, int64(len(k.rows))):]
	for len(rest) > 0 && !p.full() {
		p.rows.next()
		p.rows.out = append(p.rows.out, rest[0].json...)
		p.last, rest = rest[0].place, rest[1:]
	}
	if len(rest) > 0 {
		p.next = &place{rows: p.from.rows + int64(p.rows.n), kept: p.from.kept, key: p.last}
	}
	return true
}

// keep caches the rows after the page for the next ones.
func (p *pager) keep() {
	if p.next == nil || len(p.rest) == 0 {
		return
	}
	p.next.kept = p.r.s.results.put(&keptRows{
		container: p.c, query: p.identity, lsn: p.lsn, until: p.until, at: p.r.now, first: p.next.rows, rows: p.rest, size: p.restSize + len(p.identity),
	})
}

// collect adds a row after the page; false if there are too many to be cached.
func (p *pager) collect(row keptRow) bool {
	if p.restSize += len(row.json) + len(row.place) + 40; p.restSize > maxResult || p.restHold.Set(p.restSize) != nil {
		p.collecting, p.rest = false, nil
		return false
	}
	p.rest = append(p.rest, row)
	return true
}
