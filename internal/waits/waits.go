package waits

import (
	"context"
	"sync"
	"time"
)

// Kind is what is waited for.
type Kind uint8

// What operations wait for.
const (
	// Lock: fsyncLock, DDL of the collection, another statement of the session.
	Lock Kind = iota
	// Conflict: another write of the same document or unique key.
	Conflict
	// Majority: the disks of a majority of the set have the write, and it is applied here; and
	// what more the write concern asks for.
	Majority
	// Disk: the sync of this server's log.
	Disk
	// Memory: that of operations (package memory).
	Memory
	// Shards: the answers of shards.
	Shards
	kinds
)

var names = [kinds]string{"lock", "conflict", "majority", "disk", "memory", "shards"}

// String is the name of what is waited for.
func (k Kind) String() string { return names[k] }

// Waits are those of one operation. The zero Waits are none. Safe for use by many goroutines:
// time in which several of them wait for the same kind counts once.
type Waits struct {
	// Ended, if not nil, is called for each time in which something was waited for, by who has
	// waited. It is set before the operation runs.
	Ended func(k Kind, since time.Time, d time.Duration)

	mu    sync.Mutex
	kinds [kinds]span
	any   span // of all kinds
}

// span is the time in which somebody waits.
type span struct {
	waiting      int32
	since, total time.Duration
}

// began is when the process did, from which times are counted: they are smaller so.
var began = time.Now()

func (s *span) begin(now time.Duration) {
	if s.waiting++; s.waiting == 1 {
		s.since = now
	}
}

// end reports whether nobody waits any more.
func (s *span) end(now time.Duration) bool {
	s.waiting--
	if s.waiting == 0 {
		s.total += now - s.since
	}
	return s.waiting == 0
}

// Totals are how long an operation has waited, until some moment.
type Totals struct {
	// All counts time once in which several things are waited for.
	All time.Duration
	of  [kinds]time.Duration
}

// Totals returns how long the operation has waited up to now; of nil Waits it has not.
func (w *Waits) Totals() (t Totals) {
	if w == nil {
		return t
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.All = w.any.total
	for k := range w.kinds {
		t.of[k] = w.kinds[k].total
	}
	return t
}

// Of returns how long something was waited for.
func (t *Totals) Of(k Kind) time.Duration { return t.of[k] }

// Since returns what has come to an earlier total.
func (t Totals) Since(earlier *Totals) Totals {
	t.All -= earlier.All
	for k := range t.of {
		t.of[k] -= earlier.of[k]
	}
	return t
}

// Each yields what was waited for, and how long, in the order of the kinds.
func (t *Totals) Each(yield func(Kind, time.Duration) bool) {
	for k, d := range t.of {
		if d > 0 && !yield(Kind(k), d) {
			return
		}
	}
}

// key is that of the Waits in a context.
type key struct{}

// Context is a context that carries Waits.
type Context struct {
	context.Context
	Waits Waits
}

// Value is context.Context's.
func (c *Context) Value(k any) any {
	if _, ok := k.(key); ok {
		return &c.Waits
	}
	return c.Context.Value(k)
}

// Of returns the Waits of the operation of ctx, nil for none.
func Of(ctx context.Context) *Waits {
	w, _ := ctx.Value(key{}).(*Waits)
	return w
}

// Begin says that the operation begins to wait, until End. Of nil Waits nothing is measured.
func (w *Waits) Begin(k Kind) {
	if w == nil {
		return
	}
	now := time.Since(began)
	w.mu.Lock()
	w.kinds[k].begin(now)
	w.any.begin(now)
	w.mu.Unlock()
}

// End ends what Begin has begun.
func (w *Waits) End(k Kind) {
	if w == nil {
		return
	}
	now := time.Since(began)
	w.mu.Lock()
	s := &w.kinds[k]
	ended, since := s.end(now), s.since
	w.any.end(now)
	w.mu.Unlock()
	if ended && w.Ended != nil {
		w.Ended(k, began.Add(since), now-since)
	}
}
