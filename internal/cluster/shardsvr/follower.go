package shardsvr

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// follower is what callers see of a goroutine that receives documents. mu guards it, and
// how far it is.
type follower struct {
	mu       sync.Mutex
	caughtUp time.Time     // all writes before that time have been applied; zero until then
	err      error         // cause of the failure
	changed  chan struct{} // closed and replaced at each change
}

// note runs do under the lock, and wakes the waiters.
func (f *follower) note(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// receive runs attempt until it succeeds or ctx ends. An error that a retry does not fix is
// left in err.
func (f *follower) receive(ctx context.Context, attempt func(context.Context) error) error {
	err := retrying(ctx, transient, attempt)
	if err != nil {
		f.note(func() { f.err = err })
	}
	return err
}

// errEnded is the answer to who waits for work that has ended with its term, or is begun anew.
var errEnded = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "the shard's work in the background has ended, and is begun anew by its primary")

// over ends those who wait: nothing is received any more.
func (f *follower) over() {
	f.note(func() {
		if f.err == nil {
			f.err = errEnded
		}
	})
}

// awaitBehind waits until it is behind by no more than most or has failed, until ctx ends,
// and no longer than behindWait.
func (f *follower) awaitBehind(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(behindWait)
	defer timer.Stop()
	for {
		f.mu.Lock()
		ready, changed := f.err != nil || !f.caughtUp.IsZero() && time.Since(f.caughtUp) <= most, f.changed
		f.mu.Unlock()
		if ready {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// status appends to a reply how far behind the donors it is, once it has caught up, and the
// error by which it has failed, null for none. The caller holds f.mu.
func (f *follower) status(b *bson.Builder) {
	if !f.caughtUp.IsZero() {
		b.Int64("behind", time.Since(f.caughtUp).Milliseconds())
	}
	if f.err != nil {
		b.String("failed", f.err.Error()).Int32("code", int32(mongoerr.From(f.err).Code))
	} else {
		b.Null("failed")
	}
}

// rest waits for a while, or for the next change behind changed.
func rest(ctx context.Context, changed <-chan struct{}) {
	timer := time.NewTimer(catchUpPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	}
}
