package memory

import (
	"context"
	"sync"
)

const (
	// free is what a holding may hold without taking it from the budget: most
	// operations never hold more, and a connection runs one operation at a time.
	free = 16 << 10
	// firstChunk and lastChunk bound how many bytes a holding takes in addition to
	// what it needs; between them it is a quarter of what it holds.
	firstChunk, lastChunk = 64 << 10, 1 << 20
	// overdraft is what a holding that can spill may hold even if there is no
	// memory: with less it would spill too many pieces.
	overdraft = 256 << 10
)

// Account is what one operation, or the cursor that it opened, has taken from
// the budget. The zero value has no budget. It must not be copied. Its holdings
// may belong to several goroutines.
type Account struct {
	mu     sync.Mutex
	pool   *pool
	taken  int64
	closed bool
}

// Open makes a the account of a new operation; b may be nil.
func (a *Account) Open(b *Budget) {
	a.closed = false
	if b != nil {
		a.pool = &b.operations
	}
}

// Close releases the memory of all holdings of a.
func (a *Account) Close() {
	if a.pool == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.taken > 0 {
		a.pool.give(a.taken)
		a.taken = 0
	}
}

// Taken is how many bytes of the budget the account has.
func (a *Account) Taken() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.taken
}

// change reserves n more bytes, or releases -n. It waits for the first bytes.
func (a *Account) change(w Waiter, n int64, forced bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil
	case n < 0:
		a.pool.give(-n)
	case forced:
		a.pool.mu.Lock()
		a.pool.add(n)
		a.pool.mu.Unlock()
		a.pool.heap.settle(n)
	case a.taken > 0 || w == nil:
		if !a.pool.try(n) {
			return errNone
		}
	default:
		p := a.pool
		if n > p.limit {
			return errNone
		}
		if err := p.wait(w.Context(), n, func() bool { return p.now.Held+n <= p.limit }); err != nil {
			return err
		}
	}
	a.taken += n
	return nil
}

// Waiter has the context of the operation that waits.
type Waiter interface{ Context() context.Context }

// Holding is what one part of an operation holds. One goroutine at a time uses
// it. The zero Holding is unlimited.
type Holding struct {
	account *Account
	waiter  Waiter
	room    int64 // what it may hold without taking more
	taken   int64 // of the account
	scarce  bool  // there was no memory for a part that can spill: it does not wait again
}

// Hold makes a holding of the account, which may be nil. The context of w ends
// the wait for the account's first memory; nil if nothing waits.
func (a *Account) Hold(w Waiter) Holding {
	if a == nil || a.pool == nil {
		return Holding{}
	}
	return Holding{account: a, waiter: w, room: free}
}

// Set sets the size of the holding to n bytes. If it fails, the size stays as it
// was.
//
// Errors: 146 if there is no memory, or the cause of the operation's end
// while it waited.
func (h *Holding) Set(n int) error {
	if int64(n) <= h.room || h.account == nil {
		return nil
	}
	return h.grow(int64(n), false)
}

// Spilling is Set for a holder that can spill: it returns false if n bytes
// are too many. A small amount (overdraft) is always granted.
func (h *Holding) Spilling(n int) (bool, error) {
	if int64(n) <= h.room || h.account == nil {
		return true, nil
	}
	w := h.waiter
	if h.scarce {
		h.waiter = nil
	}
	err := h.grow(int64(n), false)
	h.waiter = w
	switch {
	case err == nil:
		return true, nil
	case err != error(errNone):
		return false, err
	}
	if h.scarce = true; n <= overdraft {
		return true, h.grow(int64(n), true)
	}
	return false, nil
}

// Book sets what the holding holds to n bytes that are allocated already,
// whether there is memory or not.
func (h *Holding) Book(n int64) {
	if h.account == nil || n == h.taken {
		return
	}
	_ = h.account.change(nil, n-h.taken, n > h.taken)
	h.taken = n
	h.room = max(n, free)
}

// Settle is Account.Settle.
func (h *Holding) Settle(n int) { h.account.Settle(n) }

// Shrink lowers what is held to at most n bytes.
func (h *Holding) Shrink(n int) {
	if back := h.taken - int64(n); back > lastChunk {
		_ = h.account.change(nil, -back, false)
		h.taken -= back
		h.room = h.taken
	}
}

func (h *Holding) grow(n int64, forced bool) error {
	more := n - h.room
	if h.taken == 0 {
		more = n
	}
	chunk := min(max(n/4, firstChunk), lastChunk)
	err := error(errNone)
	if !forced {
		err = h.account.change(h.waiter, more+chunk, false)
	}
	if err != nil {
		chunk = 0
		if e := h.account.change(nil, more, forced); e != nil {
			return err
		}
	}
	h.taken += more + chunk
	h.room = h.taken
	return nil
}

// Release gives everything back.
func (h *Holding) Release() {
	if h.taken > 0 {
		_ = h.account.change(nil, -h.taken, false)
		h.taken, h.room = 0, free
	}
}
