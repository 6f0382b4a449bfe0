package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// bench is a run under way.
type bench struct {
	o      Options
	dir    string
	server *mayfly
	pg     *postgres // or nil
	raw    *raw      // or nil
	echo   *echo     // or nil
	hollow *mayfly   // or nil
	data   map[system]*dataset
}

// Run measures what o says and prints the tables.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	chosen, err := chooseRows(o.Rows)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.Dir, "mayfly-bench-")
	if err != nil {
		return err
	}
	b := &bench{o: o, dir: dir, data: map[system]*dataset{}}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.start(ctx); err != nil {
		return err
	}
	if len(chosen.rows) > 0 {
		if err := b.rows(ctx, chosen.rows); err != nil {
			return err
		}
	}
	if len(chosen.questions) > 0 {
		if err := b.analysis(ctx, chosen.questions); err != nil {
			return err
		}
	}
	if len(chosen.cosmos) > 0 {
		if err := b.cosmos(ctx, chosen.cosmos); err != nil {
			return err
		}
	}
	if len(chosen.replica) > 0 || chosen.idle {
		if err := b.replica(ctx, chosen.replica, chosen.idle); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		chosen  bool
		name    string
		measure func(context.Context) error
	}{
		{chosen.setExpiry, replicaExpiryRow, b.replicaExpiry}, {chosen.streams, streamsRow, b.streams}, {chosen.sync, initialSyncRow, b.initialSync},
		{chosen.operate, operateRow, b.operate}, {chosen.size, sizeRow, b.size}, {chosen.transactions, allTransactions, b.transactions},
	} {
		if part.chosen {
			if err := part.measure(ctx); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	if chosen.sharded.any() {
		if err := b.sharded(ctx, chosen.sharded); err != nil {
			return err
		}
	}
	if chosen.points {
		if err := b.points(ctx); err != nil {
			return err
		}
	}
	if chosen.expiry {
		if err := b.expiry(ctx); err != nil {
			return err
		}
	}
	if chosen.archive {
		if err := b.archive(ctx); err != nil {
			return err
		}
	}
	if chosen.indexed {
		if err := b.expiryIndexed(ctx); err != nil {
			return err
		}
	}
	if chosen.relayout {
		if err := b.relayout(ctx); err != nil {
			return err
		}
	}
	if chosen.live {
		if err := b.live(ctx); err != nil {
			return err
		}
	}
	for _, s := range chosen.shapes {
		if err := b.shape(ctx, s); err != nil {
			return err
		}
	}
	if chosen.series {
		return b.timeseries(ctx)
	}
	return nil
}

func (b *bench) start(ctx context.Context) (err error) {
	if b.o.ProfileDir != "" {
		if err := os.MkdirAll(b.o.ProfileDir, 0o755); err != nil {
			return err
		}
	}
	if b.server, err = startMayfly(ctx, b.dir, &b.o); err != nil {
		return err
	}
	if b.o.Postgres {
		if b.pg, err = startPostgres(ctx, b.dir); err != nil {
			return err
		}
	}
	if b.o.Pebble {
		if b.raw, err = openRaw(b.dir, &b.o); err != nil {
			return err
		}
	}
	if b.o.Wire {
		if b.echo, err = startEcho(ctx, b.dir, b.o.Self); err != nil {
			return err
		}
	}
	if b.o.Hollow {
		b.hollow, err = startHollow(ctx, b.dir, b.o.Self)
	}
	return err
}

// close ends what was started; the data are removed.
func (b *bench) close() error {
	var errs []error
	if b.server != nil {
		errs = append(errs, b.server.close())
	}
	if b.pg != nil {
		errs = append(errs, b.pg.close())
	}
	if b.raw != nil && b.raw.db != nil {
		errs = append(errs, b.raw.close())
	}
	if b.echo != nil {
		errs = append(errs, b.echo.close())
	}
	if b.hollow != nil {
		errs = append(errs, b.hollow.close())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// systems are those that have data.
func (b *bench) systems() []expirer {
	all := []expirer{b.server}
	if b.pg != nil {
		all = append(all, b.pg)
	}
	if b.raw != nil {
		all = append(all, b.raw)
	}
	return all
}

// rows measures the rows, each on all systems in turn before the next.
func (b *bench) rows(ctx context.Context, chosen []row) error {
	for _, s := range b.systems() {
		if err := s.reset(ctx, layout{}); err != nil {
			return err
		}
		b.data[s] = newDataset(b.o.Documents)
		if err := fill(ctx, s, 0, b.o.Documents, never); err != nil {
			return err
		}
	}
	if b.pg != nil {
		if err := b.pg.exec(ctx, `VACUUM ANALYZE documents`); err != nil {
			return err
		}
	}
	if b.hollow != nil {
		b.data[b.hollow] = newDataset(b.o.Documents)
	}
	t := newTable(b.o.Out, b.hollow != nil, b.pg != nil, b.raw != nil, b.echo != nil)
	for _, r := range chosen {
		for _, clients := range b.o.Clients {
			m, err := b.row(ctx, r, clients)
			if err != nil {
				return fmt.Errorf("%s with %d clients: %w", r.name, clients, err)
			}
			t.add(r, clients, m)
		}
	}
	return t.flush()
}

// measured is a row on all systems; nil for those left out.
type measured struct{ server, hollow, pg, raw, wire *result }

func (b *bench) row(ctx context.Context, r row, clients int) (m measured, err error) {
	if m.server, err = b.onServer(ctx, r, clients); err != nil {
		return m, err
	}
	if b.hollow != nil {
		if m.hollow, err = b.on(ctx, b.hollow, r, clients); err != nil {
			return m, fmt.Errorf("hollow: %w", err)
		}
	}
	if b.pg != nil {
		if m.pg, err = b.on(ctx, b.pg, r, clients); err != nil {
			return m, fmt.Errorf("postgres: %w", err)
		}
	}
	if b.raw != nil {
		if m.raw, err = b.on(ctx, b.raw, r, clients); err != nil {
			return m, fmt.Errorf("pebble: %w", err)
		}
	}
	if b.echo != nil {
		b.echo.sent, b.echo.received = m.server.sent, m.server.received
		if m.wire, err = measure(ctx, b.echo, newDataset(0), exchange, clients, b.o.Duration); err != nil {
			return m, fmt.Errorf("wire: %w", err)
		}
	}
	return m, nil
}

// A row that consumes documents may need so many in a second; one that runs
// out of them ends early.
const (
	consumedPerSecond    = 60_000
	rawConsumedPerSecond = 300_000
)

func (b *bench) on(ctx context.Context, s system, r row, clients int) (*result, error) {
	if r.consumes {
		perSecond := float64(consumedPerSecond)
		if s == system(b.raw) {
			perSecond = rawConsumedPerSecond
		}
		n := int64(b.o.Duration.Seconds() * perSecond * (1 + 1.0/warmUp))
		if err := b.data[s].reserve(ctx, s, n); err != nil {
			return nil, err
		}
	}
	return measure(ctx, s, b.data[s], r, clients, b.o.Duration)
}

// onServer is on for the server, with its bytes and, if requested, its
// profile.
func (b *bench) onServer(ctx context.Context, r row, clients int) (*result, error) {
	in, out, err := b.server.network(ctx)
	if err != nil {
		return nil, err
	}
	requests, err := b.server.requests(ctx)
	if err != nil {
		return nil, err
	}
	profiled := b.profile(ctx, fmt.Sprintf("%s-%d", r.name, clients), b.o.Duration)
	m, err := b.on(ctx, b.server, r, clients)
	if err := errors.Join(err, profiled()); err != nil {
		return nil, err
	}
	in2, out2, err := b.server.network(ctx)
	if err != nil {
		return nil, err
	}
	requests2, err := b.server.requests(ctx)
	if err != nil {
		return nil, err
	}
	if n := requests2 - requests; n > 0 {
		m.sent, m.received = (in2-in)/n, (out2-out)/n
	}
	return m, nil
}

// profile begins a profile of the server; what it returns waits for its end.
func (b *bench) profile(ctx context.Context, name string, d time.Duration) func() error {
	if b.o.ProfileDir == "" {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() { ended <- b.server.profile(ctx, d, filepath.Join(b.o.ProfileDir, name+".pprof")) }()
	return func() error { return <-ended }
}
