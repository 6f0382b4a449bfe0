package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"text/tabwriter"
	"time"
)

// The row expiryLive removes half of a collection at once while clients read
// and update the other half by _id.

const (
	// liveRow is its name.
	liveRow = "expiryLive"
	// liveBytes is the size of its documents.
	liveBytes = 150
	// liveClients is how many clients work during the removal.
	liveClients = 8
	// liveQuiet is how long they work before and after it.
	liveQuiet = 5 * time.Second
	// settlesAfter is a little more than the server waits, when nobody writes,
	// before it moves everything to the last level of its tables.
	settlesAfter = 6 * time.Second
)

// phase is what the clients measured in a part of the row.
type phase struct {
	perSecond      float64
	p50, p99, p999 time.Duration
}

func newPhase(took []time.Duration, d time.Duration) phase {
	if len(took) == 0 {
		return phase{}
	}
	p := phase{perSecond: float64(len(took)) / d.Seconds()}
	p.p50, p.p99 = percentiles(took)
	p.p999 = took[len(took)*999/1000]
	return p
}

func (p phase) cells() string {
	return fmt.Sprintf("%.0f\t%s\t%s\t%s\t", p.perSecond, micros(p.p50), micros(p.p99), micros(p.p999))
}

// liveRemoval is what the row measured on one system.
type liveRemoval struct {
	name                  string
	perSecond             float64
	cpu                   time.Duration // per document, with that of the clients' operations
	before, during, after phase
	diskBefore, diskAfter int64
	// diskSwept is what is left once the system has nothing more to clean up.
	diskSwept int64
}

// disker is a system that knows how much disk its documents take.
type disker interface {
	disk(ctx context.Context) (int64, error)
}

// live measures the row on the server, with and without immediate visibility,
// and on PostgreSQL; of Redis it measures the rate.
func (b *bench) live(ctx context.Context) error {
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d of %d documents\tdocs/s\tcpu/doc\tops/s before\tp50\tp99\tp99.9\tduring\tp50\tp99\tp99.9\tafter\tp50\tp99\tp99.9\tMB before\tafter\tswept\t\n",
		b.o.LiveDocuments/2, b.o.LiveDocuments)
	run := func(s expirer, name string, immediate bool) error {
		r, err := b.removeLive(ctx, s, layout{Due: true, Bytes: liveBytes, Immediate: immediate}, name)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", liveRow, name, err)
		}
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s%s%s%d\t%d\t%d\t\n", r.name, r.perSecond, micros(r.cpu), r.before.cells(), r.during.cells(), r.after.cells(),
			r.diskBefore>>20, r.diskAfter>>20, r.diskSwept>>20)
		return nil
	}
	if err := run(b.server, "mayfly", false); err != nil {
		return err
	}
	if err := run(b.server, "mayfly, immediate", true); err != nil {
		return err
	}
	if err := b.singly(ctx, func() error { return run(b.server, "documents one by one", false) }); err != nil {
		return err
	}
	if b.pg != nil {
		if err := run(b.pg, "postgres", false); err != nil {
			return err
		}
	}
	if b.o.Redis {
		perSecond, err := expireRedis(ctx, b.dir, b.o.LiveDocuments/2)
		if err != nil {
			return fmt.Errorf("%s: redis: %w", liveRow, err)
		}
		fmt.Fprintf(w, "redis\t%.0f\t\n", perSecond)
	}
	return w.Flush()
}

func (b *bench) removeLive(ctx context.Context, s expirer, l layout, name string) (*liveRemoval, error) {
	due := b.o.LiveDocuments / 2
	alive := b.o.LiveDocuments - due
	if err := fillDue(ctx, s, l, alive, due); err != nil {
		return nil, err
	}
	if s == expirer(b.pg) {
		if err := b.pg.exec(ctx, `VACUUM ANALYZE documents`, `CHECKPOINT`); err != nil {
			return nil, err
		}
	}
	r := &liveRemoval{name: name}
	var err error
	if err = settled(ctx, s); err != nil {
		return nil, err
	}
	if r.diskBefore, err = restingDisk(ctx, s); err != nil {
		return nil, err
	}
	if r.before, err = b.quietPhase(ctx, s, alive); err != nil {
		return nil, err
	}
	profiled := func() error { return nil }
	if s == expirer(b.server) {
		profiled = b.profile(ctx, liveRow, liveQuiet)
	}
	used, err := s.cpu()
	if err != nil {
		return nil, err
	}
	busy := startLoad(ctx, s, liveClients, mixedWork(alive))
	begun := time.Now()
	removing, err := timedRemoval(ctx, s, due)
	took := time.Since(begun)
	during, busyErr := busy.stop()
	if err := errors.Join(err, busyErr, profiled()); err != nil {
		return nil, err
	}
	after, err := s.cpu()
	if err != nil {
		return nil, err
	}
	r.perSecond, r.cpu = float64(due)/removing.Seconds(), (after-used)/time.Duration(due)
	r.during = newPhase(during.took, took)
	if r.after, err = b.quietPhase(ctx, s, alive); err != nil {
		return nil, err
	}
	if err := settled(ctx, s); err != nil {
		return nil, err
	}
	if r.diskAfter, err = s.(disker).disk(ctx); err != nil {
		return nil, err
	}
	if err := swept(ctx, s); err != nil {
		return nil, err
	}
	r.diskSwept, err = restingDisk(ctx, s)
	return r, err
}

// quietPhase is what the clients measure while nothing is removed.
func (b *bench) quietPhase(ctx context.Context, s system, alive int64) (phase, error) {
	m := startLoad(ctx, s, liveClients, mixedWork(alive))
	time.Sleep(liveQuiet)
	all, err := m.stop()
	return newPhase(all.took, liveQuiet), err
}

// mixedWork reads and updates documents by _id, as fast as it is answered.
func mixedWork(documents int64) work {
	return func(working, ctx context.Context, w worker, v *rand.Rand, t *timings) error {
		d := newDataset(documents)
		for do := mixed(50); working.Err() == nil; {
			begun := time.Now()
			if err := do(ctx, w, d, v); err != nil {
				return err
			}
			t.took = append(t.took, time.Since(begun))
		}
		return nil
	}
}

// restingDisk is the disk space of a system's documents when nothing of them is in
// memory or the log only: the server restarts for that.
func restingDisk(ctx context.Context, s system) (int64, error) {
	if m, ok := s.(*mayfly); ok {
		if err := m.restart(ctx); err != nil {
			return 0, err
		}
		time.Sleep(settlesAfter)
	}
	if err := settled(ctx, s); err != nil {
		return 0, err
	}
	return s.(disker).disk(ctx)
}

// disk is the size of the server's tables.
func (m *mayfly) disk(context.Context) (int64, error) { return treeSize(m.dir, ".sst") }

// disk is the size of the table and its indexes.
func (p *postgres) disk(ctx context.Context) (total int64, err error) {
	c, err := p.session(ctx)
	if err != nil {
		return 0, err
	}
	return total, c.QueryRow(ctx, `SELECT pg_total_relation_size('documents')`).Scan(&total)
}
