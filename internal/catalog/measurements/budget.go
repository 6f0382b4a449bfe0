package measurements

import (
	"cmp"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// maxStaged is how many bytes of staged measurements all tables have together,
	// with frozen ones.
	maxStaged = 64 << 20
	// roomShare is the part of the bound that the tables hold at least which Most
	// chooses at once, unless all hold less.
	roomShare = 8
)

// Budget bounds what is staged in all tables of a process.
type Budget struct {
	bound int64
	used  atomic.Int64 // bytes

	mu     sync.Mutex
	most   []*Table // those that had most when all were looked at last, the first first
	looked int64    // how many tables were looked at so far
}

// NewBudget is a budget of some bytes; 0 is the default.
func NewBudget(bound int64) *Budget { return &Budget{bound: cmp.Or(bound, maxStaged)} }

// Used is how many bytes are staged.
func (b *Budget) Used() int64 { return b.used.Load() }

// Over says whether more is staged than shall be.
func (b *Budget) Over() bool { return b.used.Load() > b.bound }

// Looked is how many tables Most has looked at so far.
func (b *Budget) Looked() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.looked
}

// Forget forgets the tables that were looked at.
func (b *Budget) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = nil
}

// Most is the table to flush next, about the one that has most staged; nil where
// nothing is. Where it has to look at all tables, it chooses several that are flushed
// then, so that who inserts into many collections does not look at all each time.
func (b *Budget) Most(all iter.Seq[*Table]) *Table {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range 2 {
		for len(b.most) > 0 {
			t := b.most[0]
			b.most = b.most[1:]
			if t.staging.size() > 0 {
				return t
			}
		}
		b.chooseLocked(all)
	}
	return nil
}

// chooseLocked chooses the tables that have most. The caller holds mu.
func (b *Budget) chooseLocked(all iter.Seq[*Table]) {
	type held struct {
		t    *Table
		size int64
	}
	var some []held
	for t := range all {
		b.looked++
		if n := t.staging.size(); n > 0 {
			some = append(some, held{t, n})
		}
	}
	slices.SortFunc(some, func(x, y held) int { return cmp.Compare(y.size, x.size) })
	for sum := int64(0); len(some) > 0 && sum < b.bound/roomShare; some = some[1:] {
		b.most = append(b.most, some[0].t)
		sum += some[0].size
	}
}
