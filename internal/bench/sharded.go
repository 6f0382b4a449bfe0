package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The rows of a sharded cluster (cluster.go): what a router costs beside the shard that is
// asked without it, and the cluster beside PostgreSQL whose table is partitioned by hash
// over three servers (foreign.go).

// shardedRows are operations on both.
var shardedRows = []row{
	{name: "shardedFind", documents: 1, run: findAny},
	{name: "shardedInsert", documents: 1, run: func(ctx context.Context, w worker, d *dataset, _ *rand.Rand) error {
		return w.insert(ctx, d.fresh(1), false)
	}},
	{name: "shardedUpdate", documents: 1, run: func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
		return w.increment(ctx, v.Int64N(d.documents), false)
	}},
	{name: "shardedInsertMany", documents: manyDocuments, run: func(ctx context.Context, w worker, d *dataset, _ *rand.Rand) error {
		return w.insertMany(ctx, d.fresh(manyDocuments), manyDocuments, never)
	}},
}

const (
	shardedMoveRow   = "shardedMove"
	shardedSpreadRow = "shardedSpread"
	shardedTargetRow = "shardedTarget"
	shardedExpiryRow = "shardedExpiry"
	// shardedTransferRow is in shardedtransfer.go.
	shardedTransferRow = "shardedTransfer"
	// shardedGroupRow is in shardedgroup.go.
	shardedGroupRow = "shardedGroup"
	// shardedClients is how many clients the rows have.
	shardedClients = 8
	// shardedTurns is how often the sides of a row run in turns; of each the turn with
	// the least processor time counts.
	shardedTurns = 3
)

// shardedChoice says which of the rows of a cluster run.
type shardedChoice struct {
	rows                                           []row
	move, spread, targets, expiry, transfer, group bool
}

func (c *shardedChoice) any() bool {
	return len(c.rows) > 0 || c.move || c.spread || c.targets || c.expiry || c.transfer || c.group
}

// allSharded is every row of a cluster.
var allSharded = shardedChoice{shardedRows, true, true, true, true, true, true}

// choose adds a row, and reports whether there is one of that name.
func (c *shardedChoice) choose(name string) bool {
	i := slices.IndexFunc(shardedRows, func(r row) bool { return r.name == name })
	switch {
	case name == "sharded":
		*c = allSharded
	case name == shardedMoveRow:
		c.move = true
	case name == shardedSpreadRow:
		c.spread = true
	case name == shardedTargetRow:
		c.targets = true
	case name == shardedTransferRow:
		c.transfer = true
	case name == shardedGroupRow:
		c.group = true
	case name == shardedExpiryRow:
		c.expiry = true
	case i >= 0:
		c.rows = append(c.rows, shardedRows[i])
	default:
		return false
	}
	return true
}

// sharded measures the rows of a cluster.
func (b *bench) sharded(ctx context.Context, chosen shardedChoice) (err error) {
	if chosen.targets {
		if err := b.shardedTargets(); err != nil {
			return fmt.Errorf("%s: %w", shardedTargetRow, err)
		}
	}
	if len(chosen.rows) == 0 && !chosen.move && !chosen.spread && !chosen.expiry && !chosen.transfer && !chosen.group {
		return nil
	}
	c, err := startCluster(ctx, b.dir, &b.o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := b.routerCost(ctx, c, chosen.rows); err != nil {
		return err
	}
	if err := c.grow(ctx); err != nil {
		return err
	}
	var pg *foreign
	if b.o.Postgres {
		if pg, err = startForeign(ctx, b.dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, pg.close()) }()
	}
	if err := b.shardedPeer(ctx, c, pg, chosen.rows); err != nil {
		return err
	}
	for _, r := range []struct {
		name   string
		chosen bool
		run    func(context.Context, *cluster, *foreign) error
	}{{shardedMoveRow, chosen.move, b.shardedMove}, {shardedSpreadRow, chosen.spread, b.shardedSpread}, {shardedExpiryRow, chosen.expiry, b.shardedExpiry}, {shardedTransferRow, chosen.transfer, b.shardedTransfer}, {shardedGroupRow, chosen.group, b.shardedGroup}} {
		if !r.chosen {
			continue
		}
		if err := r.run(ctx, c, pg); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// filled makes the documents of rows on a system.
func (b *bench) filled(ctx context.Context, s system) (*dataset, error) {
	if err := s.reset(ctx, layout{}); err != nil {
		return nil, err
	}
	return newDataset(b.o.Documents), fill(ctx, s, 0, b.o.Documents, never)
}

// routerCost prints each row by the router of a cluster of one shard beside the shard that
// is asked directly.
func (b *bench) routerCost(ctx context.Context, c *cluster, rows []row) (err error) {
	if len(rows) == 0 {
		return nil
	}
	direct := c.direct()
	routed, err := b.filled(ctx, c)
	if err != nil {
		return err
	}
	alone, err := b.filled(ctx, direct)
	if err != nil {
		return err
	}
	between, err := startForwarder(ctx, b.dir, b.o.Self, direct)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, between.close()) }()
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nby a router, one shard\tclients\tops/s\tp50\tp99\tcpu/op\tclient\tof it router\tthe shard directly\tp50\tp99\tcpu/op\tclient\tcost\tp50 more\tforwarded\tp50\tp99\tcpu/op\tclient\tcost\tp50 more\t")
	for _, r := range rows {
		m, err := b.inTurns(ctx, c, direct, between, r, routed, alone)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		cells := append([]string{r.name, fmt.Sprint(shardedClients)}, m.by.cells(r.documents)...)
		cells = append(append(cells, micros(m.router)), m.to.cells(r.documents)...)
		cells = append(append(cells, more(m.by, m.to)...), m.forwarded.cells(r.documents)...)
		cells = append(cells, more(m.forwarded, m.to)...)
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	return w.Flush()
}

// more is what an operation costs beside the same on the shard directly.
func more(by, to *result) []string {
	return []string{fmt.Sprintf("%.2f", float64(by.cpu)/float64(to.cpu)), micros(by.p50 - to.p50)}
}

// routedRow is a row by a router, on the shard directly, and by a process in between that
// looks at nothing.
type routedRow struct {
	by, to, forwarded *result
	router            time.Duration // the router's part of the processor time of an operation
}

// inTurns measures a row on all sides in turns.
func (b *bench) inTurns(ctx context.Context, c *cluster, direct *directShard, between *forwarder, r row, routed, alone *dataset) (*routedRow, error) {
	m := new(routedRow)
	for turn := range shardedTurns {
		before, err := c.router.cpu()
		if err != nil {
			return nil, err
		}
		profiled := b.profileCluster(ctx, c, fmt.Sprintf("%s-%d", r.name, turn))
		by, err := measure(ctx, c, routed, r, shardedClients, b.o.Duration)
		if err := errors.Join(err, profiled()); err != nil {
			return nil, err
		}
		after, err := c.router.cpu()
		if err != nil {
			return nil, err
		}
		if m.by == nil || by.cpu < m.by.cpu {
			// The router's time has the warm-up in it.
			m.by, m.router = by, (after-before)/time.Duration(float64(max(by.ops, 1))*(1+1.0/warmUp))
		}
		if err := keepLeast(ctx, &m.to, direct, alone, r, b.o.Duration); err != nil {
			return nil, fmt.Errorf("directly: %w", err)
		}
		if err := keepLeast(ctx, &m.forwarded, between, alone, r, b.o.Duration); err != nil {
			return nil, fmt.Errorf("forwarded: %w", err)
		}
	}
	return m, nil
}

// keepLeast measures a row on a system, and keeps the result if it has the least processor
// time so far.
func keepLeast(ctx context.Context, best **result, s system, d *dataset, r row, duration time.Duration) error {
	m, err := measure(ctx, s, d, r, shardedClients, duration)
	if err == nil && (*best == nil || m.cpu < (*best).cpu) {
		*best = m
	}
	return err
}

// shardedPeer prints each row on three shards beside PostgreSQL.
func (b *bench) shardedPeer(ctx context.Context, c *cluster, pg *foreign, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	data, err := b.filled(ctx, c)
	if err != nil {
		return err
	}
	var theirs *dataset
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\nthree shards\tclients\tops/s\tp50\tp99\tcpu/op\tclient\t")
	if pg != nil {
		fmt.Fprint(w, "pg ops/s\tp50\tp99\tcpu/op\tclient\tratio\tcpu ratio\t")
		if theirs, err = b.filled(ctx, pg); err != nil {
			return err
		}
		if err := pg.analyze(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		var ours, other *result
		for range shardedTurns {
			if err := keepLeast(ctx, &ours, c, data, r, b.o.Duration); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			if pg == nil {
				continue
			}
			if err := keepLeast(ctx, &other, pg, theirs, r, b.o.Duration); err != nil {
				return fmt.Errorf("%s: postgres: %w", r.name, err)
			}
		}
		cells := append([]string{r.name, fmt.Sprint(shardedClients)}, ours.cells(r.documents)...)
		if other != nil {
			cells = append(append(cells, other.cells(r.documents)...), fmt.Sprintf("%.2f", ours.perSecond()/other.perSecond()), fmt.Sprintf("%.2f", float64(other.cpu)/float64(ours.cpu)))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	return w.Flush()
}

// profileCluster begins profiles of the router and the first shard; what it returns waits
// for their ends.
func (b *bench) profileCluster(ctx context.Context, c *cluster, name string) func() error {
	if b.o.ProfileDir == "" {
		return func() error { return nil }
	}
	ended := make(chan error, 2)
	for what, m := range map[string]*mayfly{"router": c.router, "shard": c.shards[0]} {
		go func() { ended <- m.profile(ctx, b.o.Duration, filepath.Join(b.o.ProfileDir, name+"-"+what+".pprof")) }()
	}
	return func() error { return errors.Join(<-ended, <-ended) }
}
