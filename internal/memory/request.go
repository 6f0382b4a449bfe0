package memory

import "context"

// FreeRequest is how many bytes of a request a connection may hold without
// taking them from the budget. A client that has not authenticated gets no
// more.
const FreeRequest = 64 << 10

// Request is the memory of one request of a client, from its first bytes to the
// end of its answer. One goroutine uses it. The zero value holds nothing.
type Request struct {
	budget *Budget
	taken  int64
}

// Open makes r a request that takes from b, which may be nil.
func (r *Request) Open(b *Budget) { r.budget = b }

// Set sets what the request holds to n bytes, and waits for them. One request
// at a time may take more than the pool has, so that requests do not all wait
// for each other half-read.
//
// Errors: 146 if there was no memory, or the cause of ctx's end.
func (r *Request) Set(ctx context.Context, n int) error {
	more := int64(n) - r.taken
	if r.budget == nil || n <= FreeRequest || more <= 0 {
		return nil
	}
	b, p := r.budget, &r.budget.requests
	err := p.wait(ctx, more, func() bool {
		if p.now.Held+more <= p.limit {
			return true
		}
		if b.elder == nil {
			b.elder = r
		}
		return b.elder == r && p.now.Held+more <= p.limit+2*largestRequest
	})
	if err == nil {
		r.taken += more
		return nil
	}
	r.release()
	return err
}

// Wanted reports whether others wait for memory of requests.
func (r *Request) Wanted() bool {
	return r.budget != nil && r.budget.requests.stats().Waiting > 0
}

// Release gives everything back.
func (r *Request) Release() {
	if r.taken > 0 {
		r.release()
	}
}

func (r *Request) release() {
	p := &r.budget.requests
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.budget.elder == r {
		r.budget.elder = nil
	}
	p.free(r.taken)
	r.taken = 0
}
