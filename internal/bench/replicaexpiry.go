package bench

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"
)

// replicaExpiryRow is the name of the row in which documents expire on a set of three
// while clients work at a steady rate: by ranges whose documents the oplog lists,
// by ranges whose bounds it lists, and one by one.
const replicaExpiryRow = "replicaExpiry"

// replicaExpiry measures the row.
func (b *bench) replicaExpiry(ctx context.Context) (err error) {
	s, err := startReplicaSet(ctx, b.dir, &b.o, "--setParameter", "ttlMonitorEnabled=false", "--setParameter", "ttlMonitorSleepSecs=1")
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nexpiry of %d documents on three members\tseconds\tdocs/s\tcpu/doc\t\n", b.o.ExpiryDocuments)
	var names []string
	var parts []steadyPhases
	for _, way := range []struct {
		name, parameter string
	}{{"each told", ""}, {"bounds told", "oplogListsExpired"}, {"one by one", "expiryWindows"}} {
		r, err := b.expireOnSet(ctx, s, way.parameter)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", replicaExpiryRow, way.name, err)
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.0f\t%s\t\n", way.name, r.took.Seconds(), float64(b.o.ExpiryDocuments)/r.took.Seconds(), micros(r.cpu))
		names = append(names, way.name+", before", "again", "during")
		parts = append(parts, r.before, r.again, r.during)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printSteady(b, names, parts)
}

// setRemoval is what was measured of one removal on a set.
type setRemoval struct {
	took           time.Duration
	cpu            time.Duration // per document, of all members
	before, during steadyPhases
	// again is a phase without a removal that lasts about as long as one: how far it is from
	// before says how far during may be by chance.
	again steadyPhases
}

// expiryAgain is how long a phase without a removal is beside one.
const expiryAgain = 3 * time.Second

// expireOnSet fills a collection and has it expire; off is a parameter that is false
// during the removal, "" for none.
func (b *bench) expireOnSet(ctx context.Context, s *replicaSet, off string) (r setRemoval, err error) {
	if off != "" {
		if err := s.setParameter(ctx, off, false); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, s.setParameter(ctx, off, true)) }()
	}
	if err := fillDue(ctx, s, layout{Due: true}, liveDocuments, b.o.ExpiryDocuments); err != nil {
		return r, err
	}
	if err := s.caughtUp(ctx); err != nil {
		return r, err
	}
	if err := settled(ctx, s); err != nil {
		return r, err
	}
	if r.before, err = steadyWhile(ctx, s, liveDocuments, func() error { time.Sleep(liveQuiet); return nil }); err != nil {
		return r, err
	}
	if r.again, err = steadyWhile(ctx, s, liveDocuments, func() error { time.Sleep(expiryAgain); return nil }); err != nil {
		return r, err
	}
	used, err := s.cpu()
	if err != nil {
		return r, err
	}
	if r.during, err = steadyWhile(ctx, s, liveDocuments, func() error {
		r.took, err = timedRemoval(ctx, s, b.o.ExpiryDocuments)
		return err
	}); err != nil {
		return r, err
	}
	after, err := s.cpu()
	r.cpu = (after - used) / time.Duration(b.o.ExpiryDocuments)
	return r, err
}
