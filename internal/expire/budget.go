package expire

import (
	"math"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/schema"
)

// budget limits the rate of removal: it is a token bucket that fills by a
// number of documents and bytes per second, and holds no more than that. One that is shared with
// other shards fills by this shard's part of it, and only until that ends.
type budget struct {
	sync.Mutex
	limit       schema.Budget
	docs, bytes float64
	at          time.Time
	shared      bool
	part        float64
	until       time.Time
}

// unlimited is the allowance if there is no budget.
const unlimited = math.MaxInt64

// set changes the limits; what is in the budget stays. A new limit begins with
// what a second adds.
func (b *budget) set(limit schema.Budget, shared bool, now time.Time) {
	b.Lock()
	defer b.Unlock()
	if b.limit == limit && b.shared == shared {
		return
	}
	b.fillLocked(now)
	b.shared = shared
	if b.limit.DocumentsPerSecond == 0 {
		b.docs = float64(limit.DocumentsPerSecond)
	}
	if b.limit.BytesPerSecond == 0 {
		b.bytes = float64(limit.BytesPerSecond)
	}
	b.limit = limit
}

func (b *budget) fillLocked(now time.Time) {
	s, part, until := 0.0, 1.0, now
	if b.shared {
		part = b.part
		if b.until.Before(now) {
			until = b.until
		}
	}
	if !b.at.IsZero() {
		s = max(0, until.Sub(b.at).Seconds())
	}
	b.at = now
	fill := func(have *float64, perSecond int64) {
		rate := part * float64(perSecond)
		most := rate
		if part > 0 {
			most = max(most, 1) // so that the least part removes something now and then
		}
		*have = min(*have+s*rate, most)
	}
	fill(&b.docs, b.limit.DocumentsPerSecond)
	fill(&b.bytes, b.limit.BytesPerSecond)
}

// left returns what may be removed now: nothing at all where one of the two is
// used up.
func (b *budget) left(now time.Time) (docs, bytes int64) {
	b.Lock()
	defer b.Unlock()
	b.fillLocked(now)
	docs, bytes = unlimited, unlimited
	if b.limit.DocumentsPerSecond > 0 {
		docs = int64(b.docs)
	}
	if b.limit.BytesPerSecond > 0 {
		bytes = int64(b.bytes)
	}
	if docs <= 0 || bytes <= 0 || b.shared && b.limit != (schema.Budget{}) && b.until.Before(now) { // (invariant leased)
		return 0, 0
	}
	return docs, bytes
}

// grant sets this shard's part of a shared budget. What it has beyond that is gone.
func (b *budget) grant(part float64, until, now time.Time) {
	b.Lock()
	defer b.Unlock()
	b.fillLocked(now)
	b.part, b.until = part, until
	b.fillLocked(now)
}

// lost reports whether this shard's part of a shared budget has ended.
func (b *budget) lost(now time.Time) bool {
	b.Lock()
	defer b.Unlock()
	return b.shared && b.limit != (schema.Budget{}) && b.until.Before(now)
}

// take subtracts what was removed. Several visits together may take more than
// there is, and the last document may be larger than what is left: the budget
// is then in debt, and fills up from there.
func (b *budget) take(docs, bytes int64) {
	b.Lock()
	defer b.Unlock()
	if b.limit.DocumentsPerSecond > 0 {
		b.docs -= float64(docs)
	}
	if b.limit.BytesPerSecond > 0 {
		b.bytes -= float64(bytes)
	}
}
