package catalog

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

const (
	// maxIdleSealEvery is how long at most a source is left alone after it was sealed
	// in the background: late measurements would make a bucket each otherwise.
	maxIdleSealEvery = time.Hour
	// oldestShare is the part of the sources that are chosen at once where there
	// are too many.
	oldestShare = 16
)

// idleSealEvery is how often a source may be sealed in the background: once in the
// span of a bucket, or maxIdleSealEvery.
func idleSealEvery(o *schema.Timeseries) time.Duration {
	return time.Duration(min(o.MaxSpanSeconds, int64(maxIdleSealEvery/time.Second))) * time.Second
}

// spanOver says whether a bucket that begins with a measurement of t takes none
// of now or later. math.MaxInt64 is the end of all spans.
func spanOver(t, now int64, o *schema.Timeseries) bool {
	return now == math.MaxInt64 || timeseries.Start(t, o) <= now-o.MaxSpanSeconds*1000
}

// SealOldest keeps to the bound on sources with open measurements: where there
// are more, it seals those with the oldest ones, at most n of them. The caller
// has no unit that holds anything. Errors: 26.
func (c *Catalog) SealOldest(ctx context.Context, coll *Collection, n int) error {
	for n > 0 {
		keys := coll.live.open.tooMany(n)
		if len(keys) == 0 {
			return nil
		}
		if err := c.FlushStaged(ctx, coll); err != nil {
			return err
		}
		for _, key := range keys {
			err := c.Run(ctx, storage.Buffered, func(u *Unit) error { return u.sealSource(ctx, coll, key, math.MaxInt64) })
			if err != nil {
				return err
			}
		}
		n -= len(keys)
	}
	return nil
}

// tooMany hands out the keys of sources beyond the bound, n at the most.
func (t *openTable) tooMany(n int) [][]byte {
	t.mu.RLock()
	over := t.open - t.bound
	t.mu.RUnlock()
	if over <= 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.oldest) == 0 {
		t.chooseLocked()
	}
	n = min(n, t.open-t.bound, len(t.oldest))
	if n <= 0 {
		return nil
	}
	keys := t.oldest[:n:n]
	t.oldest = t.oldest[n:]
	return keys
}

// chooseLocked lists the sources with the oldest open measurements. REQUIRES:
// mu is held.
func (t *openTable) chooseLocked() {
	invariant.HeldForWriting(&t.mu, "catalog: the lock of the table of sources is held")
	all := make([]*openSource, 0, t.open)
	for _, s := range t.sources {
		if s.Count > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *openSource) int { return cmp.Compare(a.First, b.First) })
	t.oldest = nil
	for _, s := range all[:min(len(all), t.bound/oldestShare+1)] {
		t.oldest = append(t.oldest, s.Key)
	}
}

// IdleSources lists the keys of sources, n at the most, that have open
// measurements of a bucket whose span is over, but those that were sealed in
// the background or came into being a short while ago. Each is for SealIdle.
func (c *Catalog) IdleSources(coll *Collection, n int) [][]byte {
	t, o, now := coll.live.open, coll.Settings.Timeseries, c.Clock.Judged()
	at := time.Since(t.made)
	var keys [][]byte
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.sources {
		if s.Count == 0 || s.idleSealAt > at || !spanOver(s.First, now, o) {
			continue
		}
		if keys = append(keys, s.Key); len(keys) == n {
			break
		}
	}
	return keys
}

// SealIdle seals the open measurements of a source but those of a bucket
// whose span is not over. Errors: 26.
func (c *Catalog) SealIdle(ctx context.Context, coll *Collection, key []byte) error {
	t := coll.live.open
	if t.isStaged(key) {
		if err := c.FlushStaged(ctx, coll); err != nil {
			return err
		}
	}
	next := time.Since(t.made) + idleSealEvery(coll.Settings.Timeseries)
	err := c.Run(ctx, storage.Buffered, func(u *Unit) error { return u.sealSource(ctx, coll, key, c.Clock.Judged()) })
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sources[string(key)]; s != nil {
		s.idleSealAt = next
	}
	return nil
}
