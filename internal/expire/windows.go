package expire

import (
	"context"
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

const (
	// sweepEvery is how often the sweeper looks for dead entries that are worth
	// it by their number.
	sweepEvery = 10 * time.Second
	// sweepAllEvery is after how long it takes all there are.
	sweepAllEvery = time.Hour
)

// dropWindows removes what a rule's collection keeps in windows of expiry that
// are wholly due, as ranges. It leaves to the visit what is due in others, and all
// where a budget says how many may go: a range goes whole.
func (m *Monitor) dropWindows(ctx context.Context, c *catalog.Collection, d *exec.BatchedDelete, budgeted bool) (dropped, error) {
	if d.Single || budgeted || !c.WindowedBy(d.Rule) {
		return dropped{}, nil
	}
	gone, err := m.o.Catalog.DropWindows(ctx, c, catalog.Drop{Rule: d.Rule, Now: d.Now, MaxTime: d.MaxTime, Did: func(step catalog.Dropped, took time.Duration) {
		if step.Docs == 0 {
			pause(ctx, m.governor.worked(took))
			return
		}
		b := exec.Batch{Batches: 1, Docs: step.Docs, Bytes: step.Bytes, KeysDeleted: step.Keys, Time: took}
		if d.BatchDocs > 0 {
			b.Batches = (step.Docs + d.BatchDocs - 1) / d.BatchDocs
		}
		d.Progress(b)
	}})
	if err != nil || gone.Windows == 0 {
		return dropped{gone}, err
	}
	// The visit would step over the rule's own entries, each time.
	return dropped{gone}, m.o.Catalog.SweepFirst(ctx, c, d.Rule, d.Now)
}

// bookRange counts what went as a range, in batches of the size that they have
// otherwise.
func (m *Monitor) bookRange(gone catalog.Dropped, took time.Duration, k *track) {
	m.Stats.Deleted.Add(gone.Docs)
	b := exec.Batch{Batches: 1, Docs: gone.Docs, Bytes: gone.Bytes, KeysDeleted: gone.Keys, Time: took}
	if n := m.params.BatchDocs.Load(); n > 0 {
		b.Batches = (gone.Docs + n - 1) / n
	}
	m.Stats.batch(b)
	k.book(b)
}

// dropped is what went as ranges in a visit.
type dropped struct{ catalog.Dropped }

// addTo adds it to what the visit did otherwise.
func (d dropped) addTo(v *exec.Visited) {
	v.Docs += d.Docs
	v.Bytes += d.Bytes
	v.KeysDeleted += d.Keys
	v.More = v.More || d.More
}

// sweeps removes, beside the passes, the index entries of documents that went
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
	gate := &m.o.Dispatcher.Gate
	if err := gate.Enter(ctx); err != nil {
		return
	}
	inside := true
	defer func() {
		if inside {
			gate.Leave()
		}
	}()
	begun := time.Now()
	swept, err := m.o.Catalog.Sweep(ctx, c, func(took time.Duration) error {
		// Who locks writes out need not wait for more than a stretch.
		gate.Leave()
		pause(ctx, took)
		err := gate.Enter(ctx)
		inside = err == nil
		return err
	})
	if err != nil && ctx.Err() == nil {
		m.o.Log.LogAttrs(ctx, slog.LevelWarn, "Error sweeping the indexes of a collection", slog.String("c", "INDEX"),
			slog.String("namespace", c.Namespace.String()), slog.String("error", mongoerr.From(err).Message))
		return
	}
	m.o.Log.LogAttrs(ctx, slog.LevelDebug, "swept the indexes of a collection", slog.String("c", "INDEX"), slog.String("namespace", c.Namespace.String()),
		slog.Int64("entries", swept.Entries), slog.Int64("ranges", swept.Ranges), slog.String("duration", time.Since(begun).String()))
}
