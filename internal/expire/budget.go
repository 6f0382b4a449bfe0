package expire

import (
	"math"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/schema"
)

// budget meters what may be removed: it fills by so much a second, and holds
// no more than what a second brings.
type budget struct {
	sync.Mutex
	limit       schema.Budget
	docs, bytes float64
	at          time.Time
}

// unlimited is the allowance where no budget says anything.
const unlimited = math.MaxInt64

// set changes the limits; what is in the budget stays. A limit that is new
// begins with what a second brings.
func (b *budget) set(limit schema.Budget, now time.Time) {
	b.Lock()
	defer b.Unlock()
	if b.limit == limit {
		return
	}
	b.fillLocked(now)
	if b.limit.DocumentsPerSecond == 0 {
		b.docs = float64(limit.DocumentsPerSecond)
	}
	if b.limit.BytesPerSecond == 0 {
		b.bytes = float64(limit.BytesPerSecond)
	}
	b.limit = limit
}

func (b *budget) fillLocked(now time.Time) {
	s := 0.0
	if !b.at.IsZero() {
		s = max(0, now.Sub(b.at).Seconds())
	}
	b.at = now
	fill := func(have *float64, perSecond int64) { *have = min(*have+s*float64(perSecond), float64(perSecond)) }
	fill(&b.docs, b.limit.DocumentsPerSecond)
	fill(&b.bytes, b.limit.BytesPerSecond)
}

// left is what may be removed now; nothing of both where one is used up.
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
	if docs <= 0 || bytes <= 0 {
		return 0, 0
	}
	return docs, bytes
}

// take books what was removed. Several visits may take more together than
// there is, and the last document may be larger than what is left: the budget
// is in debt then, and pays it off first.
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
