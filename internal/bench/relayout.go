package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The row relayout makes a TTL index on a filled collection of which nothing is due, and
// measures how the server changes its layout to windows: alone, and while clients read and
// update its documents by _id as fast as they are answered. After the first, all of them
// become due, and their removal is measured.

const (
	// relayoutRow is its name.
	relayoutRow = "relayout"
	// relayoutSpread is the time over which the dates of the documents are spread, in
	// milliseconds, up to as much ago; relayoutAfter is the age at which they are due.
	relayoutSpread = 24 * 3_600_000
	relayoutAfter  = 3 * relayoutSpread
)

// relaid is what the row measured of one relayout.
type relaid struct {
	took         time.Duration
	cpu          time.Duration // per document, with that of the clients' operations
	tablesBefore int64         // bytes on disk
	tablesMost   int64
	tablesAfter  int64
	logsMost     int64
	reads        [3]phase // before, during and after
	writes       [3]phase
	removal      time.Duration // of all documents; 0 if it was not measured
	removalCPU   time.Duration // per document
}

// relayout measures the row.
func (b *bench) relayout(ctx context.Context) error {
	n := b.o.RelayoutDocuments
	fmt.Fprintf(b.o.Out, "\n%d documents laid by windows\n", n)
	alone, err := b.relay(ctx, n, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", relayoutRow, err)
	}
	if err := b.tellRelaid("alone", n, alone); err != nil {
		return err
	}
	loaded, err := b.relay(ctx, n, liveClients)
	if err != nil {
		return fmt.Errorf("%s under load: %w", relayoutRow, err)
	}
	if err := b.tellRelaid(fmt.Sprintf("%d clients", liveClients), n, loaded); err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d clients\tops/s before\tp50\tp99\tp99.9\tduring\tp50\tp99\tp99.9\tafter\tp50\tp99\tp99.9\tp50 ratio\tp99 ratio\t\n", liveClients)
	for _, r := range []struct {
		name string
		of   [3]phase
	}{{"find by _id", loaded.reads}, {"update by _id", loaded.writes}} {
		fmt.Fprintf(w, "%s\t%s%s%s%.2f\t%.2f\t\n", r.name, r.of[0].cells(), r.of[1].cells(), r.of[2].cells(),
			float64(r.of[1].p50)/float64(r.of[0].p50), float64(r.of[1].p99)/float64(r.of[0].p99))
	}
	return w.Flush()
}

// tellRelaid prints one relayout.
func (b *bench) tellRelaid(name string, n int64, r *relaid) error {
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tseconds\tdocs/s\tcpu/doc\tMB of tables before\tat most\tafter\tMB of logs at most\t\n")
	fmt.Fprintf(w, "%s\t%.2f\t%.0f\t%s\t%d\t%d\t%d\t%d\t\n", name, r.took.Seconds(), float64(n)/r.took.Seconds(), micros(r.cpu),
		r.tablesBefore>>20, r.tablesMost>>20, r.tablesAfter>>20, r.logsMost>>20)
	if err := w.Flush(); err != nil || r.removal == 0 {
		return err
	}
	fmt.Fprintf(b.o.Out, "then all are due: removed at %.0f documents/s, %s of processor time each\n", float64(n)/r.removal.Seconds(), micros(r.removalCPU))
	return nil
}

// relay fills a collection and has its layout changed while that many clients work.
func (b *bench) relay(ctx context.Context, n int64, clients int) (*relaid, error) {
	s, r := b.server, new(relaid)
	if err := s.reset(ctx, layout{Mixed: true}); err != nil {
		return nil, err
	}
	if err := fillLater(ctx, s, n); err != nil {
		return nil, err
	}
	var err error
	if err = settled(ctx, s); err != nil {
		return nil, err
	}
	if r.tablesBefore, err = s.disk(ctx); err != nil {
		return nil, err
	}
	load := func(i int, during func() error) (err error) {
		m := startLoad(ctx, s, clients, readAndUpdate(n))
		begun := time.Now()
		err = during()
		took := time.Since(begun)
		all, stopErr := m.stop()
		r.reads[i], r.writes[i] = newPhase(all.took, took), newPhase(all.updates, took)
		return errors.Join(err, stopErr)
	}
	quiet := func() error {
		if clients > 0 {
			time.Sleep(liveQuiet)
		}
		return nil
	}
	if err := load(0, quiet); err != nil {
		return nil, err
	}
	if err := s.monitor(ctx, true); err != nil {
		return nil, err
	}
	later := mongo.IndexModel{Keys: bson.D{{Key: "due", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(relayoutAfter / 1000)}
	if _, err := s.plain.Indexes().CreateOne(ctx, later); err != nil {
		return nil, err
	}
	profiled := b.profile(ctx, fmt.Sprintf("%s-%d", relayoutRow, clients), liveQuiet)
	err = load(1, func() error { return s.relaid(ctx, n, r) })
	if err := errors.Join(err, profiled()); err != nil {
		return nil, err
	}
	if err := load(2, quiet); err != nil {
		return nil, err
	}
	if err := settled(ctx, s); err != nil {
		return nil, err
	}
	if r.tablesAfter, err = s.disk(ctx); err != nil {
		return nil, err
	}
	if err := s.monitor(ctx, false); err != nil || clients > 0 {
		return r, err
	}
	return r, s.removeRelaid(ctx, n, r)
}

// removeRelaid makes all documents due, and measures their removal.
func (m *mayfly) removeRelaid(ctx context.Context, n int64, r *relaid) error {
	change := bson.D{{Key: "collMod", Value: m.plain.Name()}, {Key: "index", Value: bson.D{{Key: "name", Value: "due_1"}, {Key: "expireAfterSeconds", Value: 0}}}}
	if err := m.plain.Database().RunCommand(ctx, change).Err(); err != nil {
		return err
	}
	used, err := m.cpu()
	if err != nil {
		return err
	}
	if r.removal, err = timedRemoval(ctx, m, n); err != nil {
		return err
	}
	after, err := m.cpu()
	r.removalCPU = (after - used) / time.Duration(n)
	return err
}

// fillLater makes documents with dates of the last two days, none of the last.
func fillLater(ctx context.Context, s *mayfly, n int64) error {
	base := time.Now().UnixMilli() - 2*relayoutSpread
	var next atomic.Int64
	return parallel(fillClients, func(int) error {
		w := &mayflyWorker{s}
		for at := next.Add(manyDocuments) - manyDocuments; at < n; at = next.Add(manyDocuments) - manyDocuments {
			due := make([]int64, min(manyDocuments, n-at))
			for i := range due {
				due[i] = base + rand.Int64N(relayoutSpread)
			}
			if err := w.insertDue(ctx, at, due); err != nil {
				return err
			}
		}
		return nil
	})
}

// relaid waits for the relayout that is about to begin, and measures it.
func (m *mayfly) relaid(ctx context.Context, n int64, r *relaid) error {
	before, err := m.relayouts(ctx)
	if err != nil {
		return err
	}
	began, used := time.Now(), time.Duration(0)
	for running := false; ; time.Sleep(pollEvery) {
		now, err := m.relayouts(ctx)
		if err != nil {
			return err
		}
		if on := now.Lookup("running").Boolean(); on && !running {
			running, began = true, time.Now()
			if used, err = m.cpu(); err != nil {
				return err
			}
		}
		tables, err := m.disk(ctx)
		if err != nil {
			return err
		}
		logs, err := treeSize(m.dir, ".log")
		if err != nil {
			return err
		}
		r.tablesMost, r.logsMost = max(r.tablesMost, tables), max(r.logsMost, logs)
		if now.Lookup("collections").AsInt64() > before.Lookup("collections").AsInt64() {
			r.took = time.Since(began)
			after, err := m.cpu()
			r.cpu = (after - used) / time.Duration(n)
			return err
		}
	}
}

// relayouts is what serverStatus says of relayouts.
func (m *mayfly) relayouts(ctx context.Context) (bson.Raw, error) {
	r, err := m.status(ctx)
	if err != nil {
		return nil, err
	}
	return r.Lookup("metrics", "relayout").Document(), nil
}

// readAndUpdate reads and updates the first documents by _id, half and half, as fast as it is answered.
func readAndUpdate(documents int64) work {
	return func(working, ctx context.Context, w worker, v *rand.Rand, t *timings) error {
		for working.Err() == nil {
			id, begun := v.Int64N(documents), time.Now()
			if v.IntN(2) == 0 {
				if err := w.find(ctx, id); err != nil {
					return err
				}
				t.took = append(t.took, time.Since(begun))
				continue
			}
			if err := w.increment(ctx, id, false); err != nil {
				return err
			}
			t.updates = append(t.updates, time.Since(begun))
		}
		return nil
	}
}
