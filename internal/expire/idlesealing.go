package expire

import (
	"context"
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// idleSealEvery is how often the sealer checks for idle sources of
	// measurements.
	idleSealEvery = time.Minute
	// maxIdleSources bounds the sources of a collection that are sealed at a time.
	maxIdleSources = 10_000
)

// sealIdle seals, independently of the passes, the open measurements of
// time-series collections whose sources get no more.
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
					m.sealIdleSources(ctx, c)
				}
			}
		}
	}
}

// sealIdleSources seals the idle sources of one collection, and yields to the
// foreground.
func (m *Monitor) sealIdleSources(ctx context.Context, c *catalog.Collection) {
	for _, key := range m.o.Catalog.IdleSources(c, maxIdleSources) {
		pass, err := m.o.Dispatcher.Enter(ctx, "")
		if err != nil {
			return
		}
		begun := time.Now()
		err = m.o.Catalog.SealIdle(ctx, c, key)
		pass.Leave()
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
