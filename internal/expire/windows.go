package expire

import (
	"context"
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// sweepEvery is how often the sweeper checks for collections with enough dead
	// entries to be worth a sweep.
	sweepEvery = 10 * time.Second
	// sweepAllEvery is how often it removes all dead entries.
	sweepAllEvery = time.Hour
)

// sweeps removes, independently of the passes, the index entries of documents that
// were removed with their windows: where there are many, and from time to time all.
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
		// Even where the TTL index was dropped: its windows have left dead entries in
		// others.
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

// sweep sweeps one collection where that is worthwhile, working half of the
// time.
func (m *Monitor) sweep(ctx context.Context, c *catalog.Collection, whatever bool) {
	if worth, any := c.SweepDue(); !worth && !(any && whatever) {
		return
	}
	pass, err := m.enter(ctx, "")
	if err != nil {
		return
	}
	begun := time.Now()
	defer pass.leave()
	wait := func(took time.Duration) error { return pass.pause(ctx, took) }
	swept, err := m.o.Catalog.Sweep(ctx, c, wait)
	if err == nil {
		err = m.o.Catalog.Reclaim(ctx, c, wait) // inside the gate as well: the holder of fsyncLock may be copying the files
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
