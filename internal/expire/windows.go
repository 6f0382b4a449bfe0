package expire

import (
	"context"
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// sweepEvery is how often the sweeper looks for dead entries that are worth
	// it by their number.
	sweepEvery = 10 * time.Second
	// sweepAllEvery is after how long it takes all there are.
	sweepAllEvery = time.Hour
)

// sweeps removes, independent of the passes, the index entries of documents that went
// with their windows: where they are many, and from time to time all.
func (m *Monitor) sweeps(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	all := time.Now().Add(sweepAllEvery)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		// Also where the TTL index is gone: its windows have left dead entries in others.
		for _, db := range m.o.Catalog.Databases() {
			for _, c := range m.o.Catalog.Collections(db) {
				m.sweep(ctx, c, !now.Before(all))
			}
		}
		if !now.Before(all) {
			all = now.Add(sweepAllEvery)
		}
	}
}

// sweep sweeps one collection where it is worth it, working half of the time.
func (m *Monitor) sweep(ctx context.Context, c *catalog.Collection, whatever bool) {
	if worth, any := c.SweepDue(); !worth && !(any && whatever) {
		return
	}
	pass, err := m.enter(ctx)
	if err != nil {
		return
	}
	begun := time.Now()
	defer pass.leave()
	wait := func(took time.Duration) error { return pass.pause(ctx, took) }
	swept, err := m.o.Catalog.Sweep(ctx, c, wait)
	if err == nil {
		err = m.o.Catalog.Reclaim(ctx, c, wait) // no less within: who locks writes out may copy the files
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		m.o.Log.LogAttrs(ctx, slog.LevelWarn, "Error sweeping the indexes of a collection", slog.String("c", "INDEX"),
			slog.String("namespace", c.Namespace.String()), slog.String("error", mongoerr.From(err).Message))
		return
	}
	m.o.Log.LogAttrs(ctx, slog.LevelDebug, "swept the indexes of a collection", slog.String("c", "INDEX"), slog.String("namespace", c.Namespace.String()),
		slog.Int64("entries", swept.Entries), slog.Int64("ranges", swept.Ranges), slog.String("duration", time.Since(begun).String()))
}
