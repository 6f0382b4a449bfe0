package repl

import (
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// DefaultMaxDrift is MongoDB's maxAcceptableLogicalClockDriftSecs: a year.
const DefaultMaxDrift = 365 * 24 * time.Hour

// Clock is a hybrid logical clock: it is at or after every cluster time that it has
// seen, and follows the wall clock where that is ahead. If the wall clock is set back,
// the counter rises instead. Safe for use by many goroutines.
type Clock struct {
	wall     func() time.Time
	mu       sync.Mutex
	maxDrift time.Duration
	last     Timestamp
}

// NewClock makes a clock over a wall clock. maxDrift is how far ahead of that an
// observed time may be.
func NewClock(wall func() time.Time, maxDrift time.Duration) *Clock {
	return &Clock{wall: wall, maxDrift: maxDrift}
}

// SetMaxDrift changes how far ahead of the wall clock an observed time may be.
func (c *Clock) SetMaxDrift(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxDrift = d
}

// next returns a time above all that were seen (invariant time-rises).
func (c *Clock) next() Timestamp { return c.take(1) }

// take returns the last of n consecutive times, all above those that were seen.
func (c *Clock) take(n int) Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, Timestamp(max(0, c.wall().Unix()))<<32) + Timestamp(n)
	return c.last
}

// reached reports whether the next time will be above t.
func (c *Clock) reached(t Timestamp) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.last, Timestamp(max(0, c.wall().Unix()))<<32) >= t
}

// Now returns the latest time that was observed or assigned.
func (c *Clock) Now() Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// raise notes a time from the log, to which no bound applies.
func (c *Clock) raise(t Timestamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, t)
}

// Observe advances the clock to a time that a client or member has sent. Errors: 205
// where that is further ahead of the wall clock than the bound; the clock then stays as
// it is.
func (c *Clock) Observe(t Timestamp) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t <= c.last {
		return nil
	}
	if ahead := int64(t.Seconds()) - c.wall().Unix(); ahead > int64(c.maxDrift/time.Second) {
		return mongoerr.New(mongoerr.ClusterTimeFailsRateLimiter,
			"New cluster time, %d, is too far from this node's wall clock time, %d.", t.Seconds(), c.wall().Unix())
	}
	c.last = t
	return nil
}

// PartTimes are the cluster times of a member as client.Set has them: what the member tells
// other parts of the cluster is behind all that it has written, and what it writes is behind all
// that they have told it (invariant cause-first).
type PartTimes struct{ *Clock }

// Now implements client.Times.
func (t PartTimes) Now() uint64 { return uint64(t.Clock.Now()) }

// Hear implements client.Times. Errors: 205, see Observe.
func (t PartTimes) Hear(at uint64) error { return t.Observe(Timestamp(at)) }
