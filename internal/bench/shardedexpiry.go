package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The row shardedExpiry removes due documents that lie on three shards, beside three
// servers that know nothing of each other and have a third each: sets of one member, as shards
// are, with the index that a shard key has, without it, and without a list of what has expired
// in their logs; and servers that have no log.

// ofSet are the arguments of a server that is a set of one member.
var ofSet = []string{"--replSet", "alone", "--initiate", "--bind_ip", "127.0.0.1"}

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
	for _, side := range []struct {
		name string
		layout
		args []string
		off  string // a parameter that is false
	}{
		{"three sets, hashed index", layout{Due: true, Hashed: true}, ofSet, ""},
		{"three sets", layout{Due: true}, ofSet, ""},
		{"three sets, bounds told", layout{Due: true}, ofSet, "oplogListsExpired"},
		{"three servers", layout{Due: true}, nil, ""},
	} {
		if took, cpu, err = b.expireAlone(ctx, side.layout, n, side.args, side.off); err != nil {
			return err
		}
		tell(side.name, took, cpu)
	}
	if pg != nil {
		if took, cpu, err = pg.expireDue(ctx, n); err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		tell("postgres", took, cpu)
	}
	return w.Flush()
}

// expireAlone removes n due documents from servers of their own.
func (b *bench) expireAlone(ctx context.Context, l layout, n int64, args []string, off string) (took, cpu time.Duration, err error) {
	var alone []*mayfly
	defer func() {
		for _, m := range alone {
			err = errors.Join(err, m.close(), os.RemoveAll(m.dir))
		}
	}()
	for i := range clusterShards {
		m, err := startServer(ctx, b.dir, fmt.Sprintf("alone-%d", i), &b.o, append(args, "--setParameter", "ttlMonitorEnabled=false", "--setParameter", "ttlMonitorSleepSecs=1")...)
		if err != nil {
			return 0, 0, err
		}
		alone = append(alone, m)
		if err := m.connect("mongodb://" + local(m.port) + "/?directConnection=true"); err != nil {
			return 0, 0, err
		}
		if err := m.writable(ctx); err != nil {
			return 0, 0, err
		}
		if off != "" {
			if err := m.setParameter(ctx, off, false); err != nil {
				return 0, 0, err
			}
		}
		if err := fillDue(ctx, m, l, 0, n/clusterShards); err != nil {
			return 0, 0, err
		}
	}
	return expireAll(ctx, alone)
}

// writable waits until the server takes writes, a set's member as its primary.
func (m *mayfly) writable(ctx context.Context) error {
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		hello, err := m.client.Database("admin").RunCommand(ctx, doc("hello", 1)).Raw()
		if err != nil || hello.Lookup("isWritablePrimary").Boolean() {
			return err
		}
		if time.Since(begun) > startTimeout {
			return errors.New("there is no primary")
		}
	}
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
