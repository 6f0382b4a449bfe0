package memory

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/waits"
)

const (
	// MinBudget is the least size of a budget, in bytes.
	MinBudget = 256 << 20
	// maxWait is how long an operation waits for memory.
	maxWait = 10 * time.Second
	// requestShare is the share of a budget that requests get, at least
	// minRequests.
	requestShare = 4
	minRequests  = 2*largestRequest + 16<<20
	// largestRequest is the size of the largest request, in bytes
	// (wire.MaxMessageSize).
	largestRequest = 48_000_000
)

// DefaultBudget returns the budget for a process that may use total bytes: a
// quarter of them.
func DefaultBudget(total int64) int64 { return max(MinBudget, total/4) }

// Budget is the memory that operations share. Safe for use by many goroutines.
type Budget struct {
	limit      int64
	operations pool
	requests   pool
	elder      *Request // guarded by requests.mu: the request that may exceed the pool
	heap       heap
}

// NewBudget makes a budget of limit bytes, at least MinBudget.
func NewBudget(limit int64) *Budget {
	limit = max(limit, MinBudget)
	b := &Budget{limit: limit}
	requests := max(limit/requestShare, minRequests)
	b.requests.limit = requests - 2*largestRequest // the rest is for the elder
	b.operations.limit = limit - requests
	b.operations.heap, b.requests.heap = &b.heap, &b.heap
	return b
}

// Stats are the numbers of a budget at one moment.
type Stats struct {
	Limit      int64 // bytes
	Operations PoolStats
	Requests   PoolStats
}

// PoolStats are the numbers of one part of a budget.
type PoolStats struct {
	Held    int64 // bytes
	Peak    int64 // bytes, the most ever held
	Waiting int64 // operations that wait for memory
	Waits   int64 // waits for memory since start
	Refused int64 // failures to get memory since start
}

// Stats returns the current numbers.
func (b *Budget) Stats() Stats {
	return Stats{Limit: b.limit, Operations: b.operations.stats(), Requests: b.requests.stats()}
}

// standingShare is the share of the operations' pool that one thing may use which
// outlives operations.
const standingShare = 8

// Standing returns how many bytes something that outlives operations may use: most,
// or less where that is a large share of the operations' pool. b may be nil.
func (b *Budget) Standing(most int64) int64 {
	if b == nil {
		return most
	}
	return min(most, b.operations.limit/standingShare)
}

// Short reports whether operations wait for memory, or hold more than there is: whoever
// can do with less should. b may be nil.
func (b *Budget) Short() bool {
	if b == nil {
		return false
	}
	p := &b.operations
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.Waiting > 0 || p.now.Held > p.limit
}

// ErrNone returns the error for an operation that got no memory and cannot
// continue without it.
func ErrNone() error { return errNone }

// errNone is the error of an operation that gets no memory.
var errNone = mongoerr.New(mongoerr.ExceededMemoryLimit,
	"the server's memory for operations is used up; try again, or raise operationMemoryGB")

// pool is one part of a budget.
type pool struct {
	limit int64
	heap  *heap

	mu    sync.Mutex
	now   PoolStats
	freed chan struct{} // closed when memory is released; nil without waiters
}

func (p *pool) stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// try takes n bytes, or returns false if there are not enough.
func (p *pool) try(n int64) bool {
	p.mu.Lock()
	if p.now.Held+n > p.limit {
		p.now.Refused++
		p.mu.Unlock()
		return false
	}
	p.add(n)
	p.mu.Unlock()
	p.heap.settle(n)
	return true
}

// add books n bytes. REQUIRES: p.mu held.
func (p *pool) add(n int64) {
	invariant.Held(&p.mu, "memory: the lock of the pool is held")
	p.now.Held += n
	p.now.Peak = max(p.now.Peak, p.now.Held)
}

// give takes n bytes back.
func (p *pool) give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free(n)
}

// free books n bytes given back. REQUIRES: p.mu held.
func (p *pool) free(n int64) {
	invariant.Held(&p.mu, "memory: the lock of the pool is held")
	p.now.Held -= n
	p.wake()
}

// wake lets those who wait try again. REQUIRES: p.mu held.
func (p *pool) wake() {
	invariant.Held(&p.mu, "memory: the lock of the pool is held")
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// wait takes n bytes; it waits for them for at most maxWait, or until ctx ends.
// fits is called, with p.mu held, to check whether they are there.
//
// Errors: 146 if there was no memory, or the cause of ctx's end.
func (p *pool) wait(ctx context.Context, n int64, fits func() bool) error {
	if err := p.await(ctx, n, fits); err != nil {
		return err
	}
	p.heap.settle(n)
	return nil
}

// await is wait without settling the heap.
func (p *pool) await(ctx context.Context, n int64, fits func() bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fits() {
		p.add(n)
		return nil
	}
	p.now.Waits++
	p.now.Waiting++
	w := waits.Of(ctx)
	w.Begin(waits.Memory)
	defer w.End(waits.Memory)
	defer func() { p.now.Waiting-- }()
	over := time.NewTimer(maxWait)
	defer over.Stop()
	for {
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()
		var err error
		select {
		case <-freed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-over.C:
			err = errNone
		}
		p.mu.Lock()
		switch {
		case err != nil:
			p.now.Refused++
			return err
		case fits():
			p.add(n)
			return nil
		}
	}
}
