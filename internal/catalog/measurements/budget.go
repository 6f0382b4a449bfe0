package measurements

import (
	"cmp"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/memory"
)

const (
	// maxStaged is how many bytes of staged measurements, frozen ones included, all
	// tables may have together where the budget of operations is large.
	maxStaged = 64 << 20
	// leastStaged is how many they may have even where operations are short of memory:
	// with less each insert would flush.
	leastStaged = 256 << 10
	// copies is how much memory a staged byte takes, bookkeeping included.
	copies = 2
	// bookStep is by how many bytes the booked amount may be off.
	bookStep = 64 << 10
	// roomShare is the part of the bound that the tables hold at least which Most
	// chooses at once, unless all hold less.
	roomShare = 8
)

// Budget bounds what is staged in all tables of a process. Staged measurements stay in
// memory until they are flushed, beyond the operation that inserted them: their memory
// is a standing part of the budget of operations.
type Budget struct {
	bound  int64
	used   atomic.Int64 // bytes
	booked atomic.Int64 // bytes that the budget of operations knows of
	memory *memory.Budget

	booking sync.Mutex // guards the holding
	account memory.Account
	hold    memory.Holding

	mu       sync.Mutex
	most     []*Table // those that had most when all were last compared, in order
	compared int64    // how many tables were compared so far
}

// NewBudget makes a budget of some bytes, 0 for the default, as part of that of
// operations; nil for none.
func NewBudget(bound int64, operations *memory.Budget) *Budget {
	b := &Budget{bound: cmp.Or(bound, operations.Standing(copies*maxStaged)/copies), memory: operations}
	b.account.Open(operations)
	b.hold = b.account.Hold(nil)
	return b
}

// Book books what is staged in the budget of operations.
func (b *Budget) Book() {
	n := b.used.Load()
	if d := n - b.booked.Load(); d == 0 || n > 0 && d > -bookStep && d < bookStep {
		return
	}
	b.booking.Lock()
	defer b.booking.Unlock()
	n = b.used.Load()
	b.hold.Book(copies * n)
	b.booked.Store(n)
}

// Close gives everything back.
func (b *Budget) Close() { b.account.Close() }

// Used returns how many bytes are staged.
func (b *Budget) Used() int64 { return b.used.Load() }

// Over reports whether too much is staged, by the bound or because operations are short
// of memory.
func (b *Budget) Over() bool {
	n := b.used.Load()
	return n > b.bound || n > leastStaged && b.memory.Short()
}

// Compared returns how many tables Most has compared so far.
func (b *Budget) Compared() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.compared
}

// Forget forgets the tables that were compared.
func (b *Budget) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = nil
}

// Most returns the table to flush next, about the one that has most staged; nil if
// nothing is. When it has to compare all tables, it chooses several to be flushed, so
// that inserts into many collections do not compare all tables each time.
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
		b.compared++
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
