package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

const (
	// liveDocuments is how many documents of the collection are not due: those
	// are read during the removal.
	liveDocuments = 10_000
	// quietReads is how long reads are measured before the removal begins.
	quietReads = 3 * time.Second
	// readClients is how many clients read.
	readClients = 2
	// dueSpread is the time over which the instants of expiry are spread, in
	// milliseconds, so that the order of expiry is not that of the ids.
	dueSpread = 3_600_000
)

// removal is what the row expiry measured on one system.
type removal struct {
	name                     string
	perSecond                float64
	cpu                      time.Duration // per document
	beforeP50, beforeP99     time.Duration
	duringP50, duringP99     time.Duration
	readsBefore, readsDuring int
}

// expiry measures the removal of all that is due, on each system alone.
func (b *bench) expiry(ctx context.Context) error {
	names := map[system]string{b.server: "mayfly", b.pg: "postgres", b.raw: "pebble"}
	var all []removal
	run := func(s expirer, l layout, name string) error {
		r, err := b.remove(ctx, s, l, name)
		if err != nil {
			return fmt.Errorf("expiry: %s: %w", name, err)
		}
		all = append(all, *r)
		return nil
	}
	for _, s := range b.systems() {
		if err := run(s, layout{Due: true}, names[s]); err != nil {
			return err
		}
		if s == expirer(b.server) {
			if err := b.singly(ctx, func() error { return run(s, layout{Due: true}, "documents one by one") }); err != nil {
				return err
			}
		}
	}
	return b.tellRemovals("expiry", all)
}

// tellRemovals prints removals; the first is compared with the others.
func (b *bench) tellRemovals(what string, all []removal) error {
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s of %d documents\tdocs/s\tcpu/doc\tp50 before\tp99 before\tp50 during\tp99 during\tp99 ratio\tmayfly/this\t\n", what, b.o.ExpiryDocuments)
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%.2f\t%.2f\t\n", r.name, r.perSecond, micros(r.cpu), micros(r.beforeP50), micros(r.beforeP99),
			micros(r.duringP50), micros(r.duringP99), float64(r.duringP99)/float64(r.beforeP99), all[0].perSecond/r.perSecond)
	}
	return w.Flush()
}

// fillDue makes documents: the first live ones stay, the other n are due.
func fillDue(ctx context.Context, s system, l layout, live, n int64) error {
	if err := s.reset(ctx, l); err != nil {
		return err
	}
	if err := fill(ctx, s, 0, live, never); err != nil {
		return err
	}
	base := time.Now().UnixMilli() - 2*dueSpread
	var next atomic.Int64
	return parallel(fillClients, func(int) error {
		w, err := s.worker(ctx)
		if err != nil {
			return err
		}
		defer w.close()
		for {
			at := next.Add(manyDocuments) - manyDocuments
			if at >= n {
				return nil
			}
			due := base + rand.Int64N(dueSpread)
			if err := w.insertMany(ctx, live+at, int(min(manyDocuments, n-at)), due); err != nil {
				return err
			}
		}
	})
}

// singly runs a part of a row in which the server makes no windows of expiry, so
// that documents are removed one by one.
func (b *bench) singly(ctx context.Context, run func() error) error {
	if err := b.server.setParameter(ctx, "expiryWindows", false); err != nil {
		return err
	}
	err := run()
	return errors.Join(err, b.server.setParameter(ctx, "expiryWindows", true))
}

func (b *bench) remove(ctx context.Context, s expirer, l layout, name string) (*removal, error) {
	if err := fillDue(ctx, s, l, liveDocuments, b.o.ExpiryDocuments); err != nil {
		return nil, err
	}
	if s == expirer(b.pg) {
		if err := b.pg.exec(ctx, `VACUUM ANALYZE documents`, `CHECKPOINT`); err != nil {
			return nil, err
		}
	}
	r := &removal{name: name}
	quiet := startLoad(ctx, s, readClients, readSteadily(b.o.ExpiryReads))
	time.Sleep(quietReads)
	before, err := stopReads(quiet)
	if err != nil {
		return nil, err
	}
	r.readsBefore = len(before)
	r.beforeP50, r.beforeP99 = percentiles(before)

	used, err := s.cpu()
	if err != nil {
		return nil, err
	}
	profiled := func() error { return nil }
	if s == expirer(b.server) {
		profiled = b.profile(ctx, expiryRow, quietReads)
	}
	busy := startLoad(ctx, s, readClients, readSteadily(b.o.ExpiryReads))
	removing, err := timedRemoval(ctx, s, b.o.ExpiryDocuments)
	during, readErr := stopReads(busy)
	if err := errors.Join(err, readErr, profiled()); err != nil {
		return nil, err
	}
	after, err := s.cpu()
	if err != nil {
		return nil, err
	}
	r.perSecond = float64(b.o.ExpiryDocuments) / removing.Seconds()
	r.cpu = (after - used) / time.Duration(b.o.ExpiryDocuments)
	r.readsDuring = len(during)
	r.duringP50, r.duringP99 = percentiles(during)
	return r, nil
}

// timedRemoval removes what is due and returns how long that took from the last
// time on at which all was still there: when the next pass begins is no part of
// the cost.
func timedRemoval(ctx context.Context, s expirer, total int64) (time.Duration, error) {
	begun := time.Now()
	err := s.expire(ctx, total, func(gone int64) {
		if gone == 0 {
			begun = time.Now()
		}
	})
	return time.Since(begun), err
}

// readSteadily reads documents by _id, so many a second by all clients.
func readSteadily(perSecond int) work {
	pause := time.Second * readClients / time.Duration(perSecond)
	return func(working, ctx context.Context, w worker, v *rand.Rand, t *timings) error {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-working.Done():
				return nil
			case <-tick.C:
			}
			begun := time.Now()
			if err := w.find(ctx, v.Int64N(liveDocuments)); err != nil {
				return err
			}
			t.took = append(t.took, time.Since(begun))
		}
	}
}

// stopReads ends a load of reads, which must have read something.
func stopReads(l *load) ([]time.Duration, error) {
	all, err := l.stop()
	if err == nil && len(all.took) == 0 {
		err = errWrong
	}
	return all.took, err
}
