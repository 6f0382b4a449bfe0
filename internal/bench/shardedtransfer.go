package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"text/tabwriter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The row shardedTransfer is transfers between two documents in a transaction through a
// router, of which none, a tenth, or all are between documents of two shards: then the commit
// has two phases.

// crossingShares are the shares of transfers over two shards, in percent.
var crossingShares = []int{0, 10, 100}

// transferCluster is a cluster whose workers have transactions.
type transferCluster struct{ *cluster }

func (c transferCluster) worker(context.Context) (worker, error) {
	session, err := c.client.StartSession()
	return &transactionWorker{mayflyWorker{&c.mayfly}, session}, err
}

// shardedTransfer measures the row.
func (b *bench) shardedTransfer(ctx context.Context, c *cluster, _ *foreign) error {
	data, err := b.filled(ctx, c)
	if err != nil {
		return err
	}
	ids, err := c.idsByShard(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ntransfers by a router\tclients\tops/s\tp50\tp99\tcpu/op\tclient\tp50, of on one shard\tcpu\t")
	var one *result
	for _, share := range crossingShares {
		var best *result
		r := row{name: fmt.Sprintf("%d %% over two shards", share), documents: 1, run: func(ctx context.Context, w worker, _ *dataset, v *rand.Rand) error {
			at := v.IntN(len(ids))
			to := at
			if v.IntN(100) < share {
				to = (at + 1 + v.IntN(len(ids)-1)) % len(ids)
			}
			i := v.IntN(len(ids[at]))
			from, into := ids[at][i], ids[to][v.IntN(len(ids[to]))]
			if from == into {
				into = ids[at][(i+1)%len(ids[at])]
			}
			_, err := w.(transactor).transfer(ctx, from, into)
			return err
		}}
		for range shardedTurns {
			if err := keepLeast(ctx, &best, transferCluster{c}, data, r, b.o.Duration); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
		if one == nil {
			one = best
		}
		cells := append([]string{r.name, fmt.Sprint(shardedClients)}, best.cells(1)...)
		cells = append(cells, fmt.Sprintf("%.2f", float64(best.p50)/float64(one.p50)), fmt.Sprintf("%.2f", float64(best.cpu)/float64(one.cpu)))
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	return w.Flush()
}

// idsByShard are the _ids of the documents on each shard that has at least two.
func (c *cluster) idsByShard(ctx context.Context) (all [][]int64, err error) {
	for _, s := range c.shards {
		cur, err := s.client.Database("bench").Collection("documents").Find(ctx, bson.D{}, options.Find().SetProjection(doc("_id", 1)))
		if err != nil {
			return nil, err
		}
		var docs []struct {
			ID int64 `bson:"_id"`
		}
		if err := cur.All(ctx, &docs); err != nil {
			return nil, err
		}
		ids := make([]int64, len(docs))
		for i, d := range docs {
			ids[i] = d.ID
		}
		if len(ids) > 1 {
			all = append(all, ids)
		}
	}
	if len(all) < 2 {
		return nil, errWrong
	}
	return all, nil
}
