package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// The rows of replica sets: three members on this machine, every commit on the disks of
// two. Beside them, in the same run: a bare raft group with the same payload
// (prototype.go), PostgreSQL with two standbys of which one must have each commit
// (standbys.go), the standalone with j: true, and the server that has every answer ready
// (hollow.go): what this driver can have of any.

// replicaRow is an operation on all of them.
type replicaRow struct {
	row
	clients []int
	// payload is how many bytes the bare group proposes for it; 0 for a read.
	payload int
	// secondaries is true if secondaries and standbys are read from.
	secondaries bool
}

var replicaRows = []replicaRow{
	{row: row{name: "replicaInsert", documents: 1, run: func(ctx context.Context, w worker, d *dataset, _ *rand.Rand) error {
		return w.insert(ctx, d.fresh(1), false)
	}}, clients: []int{8, 64}, payload: documentBytes},
	{row: row{name: "replicaInsertMany", documents: manyDocuments, run: func(ctx context.Context, w worker, d *dataset, _ *rand.Rand) error {
		return w.insertMany(ctx, d.fresh(manyDocuments), manyDocuments, never)
	}}, clients: []int{8}, payload: manyDocuments * documentBytes},
	{row: row{name: "replicaUpdate", documents: 1, run: func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
		return w.increment(ctx, v.Int64N(d.documents), false)
	}}, clients: []int{8, 64}, payload: documentBytes},
	{row: row{name: "replicaHot", documents: 1, run: func(ctx context.Context, w worker, _ *dataset, _ *rand.Rand) error {
		return w.increment(ctx, 0, false)
	}}, clients: []int{64}, payload: documentBytes},
	{row: row{name: "replicaFind", documents: 1, run: findAny}, clients: []int{8, 64}},
	{row: row{name: "replicaFindSecondary", documents: 1, run: findAny}, clients: []int{8, 64}, secondaries: true},
}

// findAny finds one document by _id.
func findAny(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
	return w.find(ctx, v.Int64N(d.documents))
}

const (
	// replicaIdleRow is the name of the row in which nobody asks for anything.
	replicaIdleRow = "replicaIdle"
	// idleFor is how long that row runs, or idleRows times as long as others if that is less.
	idleFor  = 20 * time.Second
	idleRows = 20
)

// replicas are what the rows of replica sets are measured on; nil for those left out.
type replicas struct {
	set        *replicaSet
	bare       *prototype
	pg         *standbys
	standalone *mayfly // its writes have j: true
	data       struct{ set, pg, standalone *dataset }
}

func (r *replicas) close() (err error) {
	if r.set != nil {
		err = errors.Join(err, r.set.close())
	}
	if r.bare != nil {
		err = errors.Join(err, r.bare.close())
	}
	if r.pg != nil {
		err = errors.Join(err, r.pg.close())
	}
	return err
}

// replica measures the rows of replica sets.
func (b *bench) replica(ctx context.Context, chosen []replicaRow, idle bool) (err error) {
	r := &replicas{standalone: b.server.alwaysJournaled()}
	defer func() { err = errors.Join(err, r.close()) }()
	if r.set, err = startReplicaSet(ctx, b.dir, &b.o); err != nil {
		return err
	}
	if idle {
		if err := b.replicaIdle(r.set); err != nil {
			return err
		}
	}
	if len(chosen) == 0 {
		return nil
	}
	if r.bare, err = startPrototype(ctx, b.dir); err != nil {
		return err
	}
	if b.o.Postgres {
		if r.pg, err = startStandbys(ctx, b.dir); err != nil {
			return err
		}
	}
	if err := b.fillReplicas(ctx, r); err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\nrow\tclients\tops/s\tp50\tp99\tcpu/op\tclient\tp99/p50\tbare raft ops/s\tp50\tp99\tcpu/op\tratio\tstandalone -j ops/s\tp50\tp99\tcpu/op\tratio\t")
	if b.hollow != nil {
		fmt.Fprint(w, "hollow ops/s\tp50\tp99\tcpu/op\tratio\t")
	}
	if r.pg != nil {
		fmt.Fprint(w, "pg ops/s\tp50\tp99\tcpu/op\tratio\t")
	}
	fmt.Fprintln(w)
	for _, row := range chosen {
		for _, clients := range row.clients {
			if err := b.onReplicas(ctx, w, r, row, clients); err != nil {
				return fmt.Errorf("%s with %d clients: %w", row.name, clients, err)
			}
		}
	}
	return w.Flush()
}

// fillReplicas makes the documents of the rows.
func (b *bench) fillReplicas(ctx context.Context, r *replicas) error {
	r.data.set, r.data.pg, r.data.standalone = newDataset(b.o.Documents), newDataset(b.o.Documents), newDataset(b.o.Documents)
	systems := []system{r.set, r.standalone}
	if r.pg != nil {
		systems = append(systems, r.pg)
	}
	for _, s := range systems {
		if err := s.reset(ctx, layout{}); err != nil {
			return err
		}
		if err := fill(ctx, s, 0, b.o.Documents, never); err != nil {
			return err
		}
	}
	if err := r.set.caughtUp(ctx); err != nil || r.pg == nil {
		return err
	}
	if err := r.pg.exec(ctx, `VACUUM ANALYZE documents`); err != nil {
		return err
	}
	return r.pg.caughtUp(ctx)
}

// onReplicas measures one row and prints its line.
func (b *bench) onReplicas(ctx context.Context, w *tabwriter.Writer, r *replicas, row replicaRow, clients int) error {
	set, pg := r.set, r.pg
	if row.secondaries {
		set = set.onSecondaries()
		if pg != nil {
			pg = pg.onStandby()
		}
	}
	profiled, err := b.profileSet(ctx, r.set, fmt.Sprintf("%s-%d", row.name, clients))
	if err != nil {
		return err
	}
	m, err := measure(ctx, set, r.data.set, row.row, clients, b.o.Duration)
	if err := errors.Join(err, profiled()); err != nil {
		return err
	}
	cells := append([]string{row.name, fmt.Sprint(clients)}, m.cells(row.documents)...)
	cells = append(cells, fmt.Sprintf("%.1f", float64(m.p99)/float64(m.p50)))
	compare := func(s system, d *dataset, row replicaRow) error {
		other, err := measure(ctx, s, d, row.row, clients, b.o.Duration)
		if err != nil {
			return err
		}
		cells = append(append(cells, other.cells(row.documents)[:4]...), fmt.Sprintf("%.2f", m.perSecond()/other.perSecond()))
		return nil
	}
	if row.payload == 0 {
		cells = append(cells, "-", "-", "-", "-", "-")
	} else if err := compare(r.bare, newDataset(0), row.proposals()); err != nil {
		return fmt.Errorf("bare raft: %w", err)
	}
	if err := compare(r.standalone, r.data.standalone, row); err != nil {
		return fmt.Errorf("standalone: %w", err)
	}
	if b.hollow != nil {
		if err := compare(b.hollow, newDataset(b.o.Documents), row); err != nil {
			return fmt.Errorf("hollow: %w", err)
		}
	}
	if pg != nil {
		if err := compare(pg, r.data.pg, row); err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
	}
	_, err = fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	return err
}

// proposals is the row on the bare group.
func (r replicaRow) proposals() replicaRow {
	payload := bytes.Repeat([]byte{'x'}, r.payload)
	r.run = func(ctx context.Context, w worker, _ *dataset, _ *rand.Rand) error {
		return w.(*bareWorker).p.propose(ctx, payload)
	}
	return r
}

// profileSet begins profiles of all members; what it returns waits for their ends.
func (b *bench) profileSet(ctx context.Context, s *replicaSet, name string) (func() error, error) {
	if b.o.ProfileDir == "" {
		return func() error { return nil }, nil
	}
	p, err := s.primary(ctx)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, len(s.members))
	for i, m := range s.members {
		file := fmt.Sprintf("%s-secondary%d.pprof", name, i)
		if m == p {
			file = name + "-primary.pprof"
		}
		go func() { ended <- m.profile(ctx, b.o.Duration, filepath.Join(b.o.ProfileDir, file)) }()
	}
	return func() (err error) {
		for range s.members {
			err = errors.Join(err, <-ended)
		}
		return err
	}, nil
}

// replicaIdle measures the processor time of a set that nobody asks anything, in
// hundredths of one processor.
func (b *bench) replicaIdle(s *replicaSet) error {
	for _, m := range s.members {
		if err := rest(m); err != nil {
			return err
		}
	}
	before, err := s.cpu()
	if err != nil {
		return err
	}
	d := max(b.o.Duration, min(idleFor, idleRows*b.o.Duration))
	time.Sleep(d)
	after, err := s.cpu()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.o.Out, "\n%s: three members use %.2f %% of a processor in %s\n", replicaIdleRow, 100*float64(after-before)/float64(d), d)
	return err
}
