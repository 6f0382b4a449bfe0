package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The row shardedExpiry removes due documents that lie on three shards, beside three
// servers that know nothing of each other and have a third each.

// shardedExpiry measures the row.
func (b *bench) shardedExpiry(ctx context.Context, c *cluster, pg *foreign) (err error) {
	n := b.o.ExpiryDocuments
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d due documents\tseconds\tdocs/s\tcpu/doc\tmayfly/this\t\n", n)
	var first time.Duration
	tell := func(name string, took, cpu time.Duration) {
		if first == 0 {
			first = took
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.0f\t%s\t%.2f\t\n", name, took.Seconds(), float64(n)/took.Seconds(), micros(cpu/time.Duration(n)), took.Seconds()/first.Seconds())
	}
	if err := fillDue(ctx, c, layout{Due: true}, 0, n); err != nil {
		return err
	}
	took, cpu, err := expireAll(ctx, c.shards)
	if err != nil {
		return err
	}
	tell("mayfly, three shards", took, cpu)
	var alone []*mayfly
	defer func() {
		for _, m := range alone {
			err = errors.Join(err, m.close())
		}
	}()
	for i := range clusterShards {
		m, err := startServer(ctx, b.dir, fmt.Sprintf("alone-%d", i), &b.o, "--setParameter", "ttlMonitorEnabled=false", "--setParameter", "ttlMonitorSleepSecs=1")
		if err != nil {
			return err
		}
		alone = append(alone, m)
		if err := m.connect("mongodb://" + local(m.port)); err != nil {
			return err
		}
		if err := fillDue(ctx, m, layout{Due: true}, 0, n/clusterShards); err != nil {
			return err
		}
	}
	if took, cpu, err = expireAll(ctx, alone); err != nil {
		return err
	}
	tell("three servers", took, cpu)
	if pg != nil {
		if took, cpu, err = pg.expireDue(ctx, n); err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		tell("postgres", took, cpu)
	}
	return w.Flush()
}

// expireAll removes what is due on several servers at the same time: everything that they
// have. The time begins when the first document goes.
func expireAll(ctx context.Context, all []*mayfly) (took, cpu time.Duration, err error) {
	used, err := cpuOf(all...)
	if err != nil {
		return 0, 0, err
	}
	var mu sync.Mutex
	var began time.Time
	err = parallel(len(all), func(i int) error {
		n, err := all[i].plain.CountDocuments(ctx, bson.D{})
		if err != nil || n == 0 {
			return err
		}
		return all[i].expire(ctx, n, func(gone int64) {
			mu.Lock()
			defer mu.Unlock()
			if gone > 0 && began.IsZero() {
				began = time.Now()
			}
		})
	})
	if err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	now, err := cpuOf(all...)
	return took, now - used, err
}
