package bench

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	mayflybson "github.com/mayflydb/mayfly/internal/bson"
)

// The row shardedGroup asks for sums of orders that lie on three shards, by a router, beside the
// shards that are asked for those of their parts directly, all at the same time: as servers that
// know nothing of each other.

// groupedBy are the questions of the row: few groups, and half as many as there are orders.
var groupedBy = []string{"matchGroup", "groupMany"}

// shardedGroup measures the row.
func (b *bench) shardedGroup(ctx context.Context, c *cluster, _ *foreign) error {
	n := b.o.AnalysisDocuments
	orders := c.collection(ordersName)
	if err := orders.Drop(ctx); err != nil {
		return err
	}
	if err := c.command(ctx, "admin", doc("shardCollection", orders.Database().Name()+"."+ordersName, "key", doc("_id", "hashed"))).Err(); err != nil {
		return err
	}
	if err := insertAll(ctx, orders, n, func(id int64) mayflybson.Doc { o := newOrder(id, n); return o.bson() }); err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d orders on three shards, milliseconds\tby a router\tcpu\tof it router\teach shard directly\tcpu\tspeed, of directly\t\n", n)
	for i := range questions {
		q := &questions[i]
		if q.name != groupedBy[0] && q.name != groupedBy[1] {
			continue
		}
		type cost struct{ took, cpu, router time.Duration }
		var by, directly cost
		least := func(into *cost, all []*mayfly, do func() error) error {
			used, err := cpuOf(all...)
			if err != nil {
				return err
			}
			router, err := c.router.cpu()
			if err != nil {
				return err
			}
			began := time.Now()
			if err := do(); err != nil {
				return err
			}
			took := time.Since(began)
			now, err := cpuOf(all...)
			if err != nil {
				return err
			}
			routed, err := c.router.cpu()
			if err == nil && (into.took == 0 || took < into.took) {
				*into = cost{took, now - used, routed - router}
			}
			return err
		}
		profiled := b.profileCluster(ctx, c, q.name)
		for range shardedTurns + 1 { // the first one warms up, and is hardly the least
			err := least(&by, append(c.shards[:len(c.shards):len(c.shards)], c.router), func() error {
				_, err := c.ask(ctx, q, n)
				return err
			})
			if err == nil {
				err = least(&directly, c.shards, func() error {
					return parallel(len(c.shards), func(i int) error {
						_, err := c.shards[i].ask(ctx, q, n)
						return err
					})
				})
			}
			if err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
		}
		if err := profiled(); err != nil {
			return err
		}
		ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t\n", q.name, ms(by.took), ms(by.cpu), ms(by.router), ms(directly.took), ms(directly.cpu), directly.took.Seconds()/by.took.Seconds())
	}
	return w.Flush()
}
