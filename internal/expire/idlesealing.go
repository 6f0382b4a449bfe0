package expire

import (
	"context"
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// idleSealEvery is how often sources of measurements are sought that can be sealed.
	idleSealEvery = time.Minute
	// idleSealSources bounds the sources of a collection that are sealed each time.
	idleSealSources = 10_000
)

// sealIdle seals, beside the passes, the open measurements of time-series
// collections that wait for others in vain.
func (m *Monitor) sealIdle(ctx context.Context) {
	tick := time.NewTicker(idleSealEvery)
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
					m.sealIdleOf(ctx, c)
				}
			}
		}
	}
}

// sealIdleOf seals the idle sources of one collection, and gives way to the
// foreground.
func (m *Monitor) sealIdleOf(ctx context.Context, c *catalog.Collection) {
	for _, key := range m.o.Catalog.IdleSources(c, idleSealSources) {
		if err := m.o.Dispatcher.Enter(ctx, ""); err != nil {
			return
		}
		begun := time.Now()
		err := m.o.Catalog.SealIdle(ctx, c, key)
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
