package expire

import (
	"context"
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// restEvery is how often sources of measurements are sought that can be sealed.
	restEvery = time.Minute
	// restSources bounds the sources of a collection that are sealed each time.
	restSources = 10_000
)

// rests seals, beside the passes, the open measurements of time-series
// collections that wait for others in vain.
func (m *Monitor) rests(ctx context.Context) {
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, db := range m.o.Catalog.Databases() {
			for _, c := range m.o.Catalog.Collections(db) {
				if c.IsTimeseries() {
					m.rest(ctx, c)
				}
			}
		}
	}
}

// rest seals the resting sources of one collection, and gives way to the
// foreground.
func (m *Monitor) rest(ctx context.Context, c *catalog.Collection) {
	for _, key := range m.o.Catalog.RestingSources(c, restSources) {
		if err := m.o.Dispatcher.Enter(ctx, ""); err != nil {
			return
		}
		begun := time.Now()
		err := m.o.Catalog.SealResting(ctx, c, key)
		m.o.Dispatcher.Gate.Leave()
		if err != nil {
			if ctx.Err() == nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
				m.o.Log.LogAttrs(ctx, slog.LevelWarn, "Error sealing measurements of a time-series collection", slog.String("c", "INDEX"),
					slog.String("namespace", c.Namespace.String()), slog.String("error", mongoerr.From(err).Message))
			}
			return
		}
		pause(ctx, m.governor.worked(time.Since(begun)))
	}
}
