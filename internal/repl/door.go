package repl

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// errReplaced ends operations on data that a snapshot replaces.
var errReplaced = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "operation was interrupted because the data of this member are being replaced")

// door lets operations use the data, and keeps them out while a snapshot replaces
// the data. The zero door is open.
type door struct {
	mu      sync.Mutex
	inside  map[*visit]struct{}
	opened  chan struct{} // closed when the door opens; nil while it is open
	emptied chan struct{} // closed when no operation is inside; nil without waiters
}

// visit is one operation inside the door: the context under which it runs.
type visit struct {
	context.Context
	door *door
	end  context.CancelCauseFunc
	// ends says that the context is the visit's own.
	ends bool
}

type visitKey struct{}

// Value is context.Context's.
func (v *visit) Value(key any) any {
	if key == (visitKey{}) {
		return v
	}
	return v.Context.Value(key)
}

// enter waits until the door is open. The operation runs under the context that it
// returns, and calls leave at its end. An operation that is already inside may
// enter again. Errors: the cause of ctx's end.
func (d *door) enter(ctx context.Context) (inside context.Context, leave func(), err error) {
	return d.enterUnder(ctx, nil)
}

// enterUnder is enter where end ends ctx, which is then that of the operation inside; nil
// where nothing does.
func (d *door) enterUnder(ctx context.Context, end context.CancelCauseFunc) (inside context.Context, leave func(), err error) {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok && v.door == d {
		return ctx, func() {}, nil
	}
	d.mu.Lock()
	for d.opened != nil {
		opened := d.opened
		d.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	v := &visit{Context: ctx, door: d, end: end}
	if v.ends = end == nil; v.ends {
		v.Context, v.end = context.WithCancelCause(ctx)
	}
	if d.inside == nil {
		d.inside = map[*visit]struct{}{}
	}
	d.inside[v] = struct{}{}
	return v, func() { d.leave(v) }, nil
}

func (d *door) leave(v *visit) {
	if v.ends {
		v.end(nil)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.inside, v)
	if len(d.inside) == 0 && d.emptied != nil {
		close(d.emptied)
		d.emptied = nil
	}
}

// close keeps operations out, ends those inside, and waits for them to leave; it
// returns false if some have not left in time.
func (d *door) close(within time.Duration) bool {
	d.mu.Lock()
	if d.opened == nil {
		d.opened = make(chan struct{})
	}
	for v := range d.inside {
		v.end(errReplaced)
	}
	if len(d.inside) == 0 {
		d.mu.Unlock()
		return true
	}
	if d.emptied == nil {
		d.emptied = make(chan struct{})
	}
	emptied := d.emptied
	d.mu.Unlock()
	select {
	case <-emptied:
		return true
	case <-time.After(within):
		return false
	}
}

// open lets operations in.
func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened != nil {
		close(d.opened)
		d.opened = nil
	}
}

// closed reports whether operations are kept out.
func (d *door) closed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened != nil
}
