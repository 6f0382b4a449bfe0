package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The row shardedTransfer is transfers between two documents in a transaction through a
// router, of which none, a tenth, or all are between documents of two shards: then the commit
// has two phases. PostgreSQL does it in two ways: by the server with the partitioned table, which
// commits on one server after the other (postgres_fdw has no two phases), so a failure in between
// leaves a half; and by transactions that the client prepares on both servers.

// crossingShares are the shares of transfers over two shards, in percent.
var crossingShares = []int{0, 10, 100}

// transferCluster is a cluster whose workers have transactions.
type transferCluster struct{ *cluster }

func (c transferCluster) worker(context.Context) (worker, error) {
	session, err := c.client.StartSession()
	return &transactionWorker{mayflyWorker{&c.mayfly}, session}, err
}

// transferSystem is a system with accounts on shards.
type transferSystem struct {
	name string
	system
	data *dataset
	ids  [][]int64 // by shard
}

// shardedTransfer measures the row.
func (b *bench) shardedTransfer(ctx context.Context, c *cluster, pg *foreign) error {
	data, err := b.filled(ctx, c)
	if err != nil {
		return err
	}
	ids, err := c.idsByShard(ctx)
	if err != nil {
		return err
	}
	systems := []transferSystem{{"mayfly", transferCluster{c}, data, ids}}
	if pg != nil {
		if data, err = b.filled(ctx, pg); err == nil {
			err = pg.analyze(ctx)
		}
		if err != nil {
			return err
		}
		if ids, err = pg.idsByServer(ctx); err != nil {
			return err
		}
		systems = append(systems, transferSystem{"postgres_fdw, one phase", transactionForeign{pg}, data, ids}, transferSystem{"postgres, prepared", newPreparedForeign(pg, ids), data, ids})
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ntransfers\tamong shards\tover two\tclients\tops/s\tp50\tp99\tcpu/op\tclient\tp50, of on one shard\tcpu\tmayfly/this\t")
	one := make([]*result, len(systems))
	for shards := 1; shards <= clusterShards; shards++ {
		for _, share := range crossingShares {
			if shards == 1 && share > 0 {
				continue
			}
			best := make([]*result, len(systems))
			for range shardedTurns {
				for i := range systems {
					s := &systems[i]
					profiled := func() error { return nil }
					if i == 0 {
						profiled = b.profileCluster(ctx, c, fmt.Sprintf("shardedTransfer-%d-%d", shards, share))
					}
					if err := errors.Join(keepLeast(ctx, &best[i], s, s.data, s.transfers(shards, share), b.o.Duration), profiled()); err != nil {
						return fmt.Errorf("%s, %d shards, %d %%: %w", s.name, shards, share, err)
					}
				}
			}
			for i, r := range best {
				if share == 0 {
					one[i] = r
				}
				cells := append([]string{systems[i].name, fmt.Sprint(shards), fmt.Sprintf("%d %%", share), fmt.Sprint(shardedClients)}, r.cells(1)...)
				cells = append(cells, fmt.Sprintf("%.2f", float64(r.p50)/float64(one[i].p50)), fmt.Sprintf("%.2f", float64(r.cpu)/float64(one[i].cpu)), fmt.Sprintf("%.2f", best[0].perSecond()/r.perSecond()))
				fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
			}
		}
	}
	return w.Flush()
}

// transfers are those among the accounts of the first shards, of which a share in percent is over
// two of them.
func (s *transferSystem) transfers(shards, share int) row {
	ids := s.ids[:shards]
	return row{name: "transfer", documents: 1, run: func(ctx context.Context, w worker, _ *dataset, v *rand.Rand) error {
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
}

// idsByShard are the _ids of the documents on each shard, of which each has at least two.
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
		if len(ids) < 2 {
			return nil, errWrong
		}
		all = append(all, ids)
	}
	return all, nil
}

// idsByServer are the ids of the rows on each server.
func (f *foreign) idsByServer(ctx context.Context) (all [][]int64, err error) {
	for _, p := range f.servers {
		c, err := p.session(ctx)
		if err != nil {
			return nil, err
		}
		rows, err := c.Query(ctx, `SELECT id FROM documents`)
		if err != nil {
			return nil, err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return nil, err
		}
		if len(ids) < 2 {
			return nil, errWrong
		}
		all = append(all, ids)
	}
	return all, nil
}

// transactionForeign is a foreign whose workers have transactions on the partitioned table.
type transactionForeign struct{ *foreign }

func (f transactionForeign) worker(ctx context.Context) (worker, error) {
	w, err := f.postgres.worker(ctx)
	if err != nil {
		return nil, err
	}
	return &postgresTransactor{w.(*postgresWorker)}, nil
}

// preparedForeign is a foreign whose workers ask the servers themselves, and commit on two of them
// by transactions that they prepare.
type preparedForeign struct {
	*foreign
	home map[int64]int // the server of each id
}

func newPreparedForeign(f *foreign, ids [][]int64) preparedForeign {
	p := preparedForeign{f, map[int64]int{}}
	for i, list := range ids {
		for _, id := range list {
			p.home[id] = i
		}
	}
	return p
}

func (f preparedForeign) worker(ctx context.Context) (worker, error) {
	w := &preparedWorker{home: f.home, name: fmt.Sprintf("w%d", rand.Uint64())}
	for _, p := range f.servers {
		c, err := pgx.Connect(ctx, p.url)
		if err != nil {
			return nil, err
		}
		w.conns = append(w.conns, c)
	}
	return w, nil
}

// preparedWorker is one client of all servers, which only transfers.
type preparedWorker struct {
	transactor
	conns []*pgx.Conn
	home  map[int64]int
	name  string // of its transactions, with their number
	n     int
}

func (w *preparedWorker) close() (err error) {
	for _, c := range w.conns {
		err = errors.Join(err, c.Close(context.Background()))
	}
	return err
}

// transfer implements transactor. It changes the row on the first of two servers first, so that
// no two wait for each other.
func (w *preparedWorker) transfer(ctx context.Context, from, to int64) (retries int64, err error) {
	for ; ; retries++ {
		w.n++
		err := w.try(ctx, fmt.Sprintf("%s-%d", w.name, w.n), from, to)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || !mayPass(refused) {
			return retries, err
		}
	}
}

func (w *preparedWorker) try(ctx context.Context, name string, from, to int64) (err error) {
	type change struct{ id, by int64 }
	changes := []change{{from, -1}, {to, 1}}
	if w.home[from] > w.home[to] {
		changes[0], changes[1] = changes[1], changes[0]
	}
	var open []*pgx.Conn
	prepared := false
	defer func() {
		if err == nil {
			return
		}
		for _, c := range open {
			_, _ = c.Exec(ctx, `ROLLBACK`)
			if prepared {
				_, _ = c.Exec(ctx, `ROLLBACK PREPARED '`+name+`'`)
			}
		}
	}()
	for i, ch := range changes {
		c := w.conns[w.home[ch.id]]
		if i == 0 || c != open[0] {
			if _, err := c.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ`); err != nil {
				return err
			}
			open = append(open, c)
		}
		tag, err := c.Exec(ctx, postgresAdd, ch.id, ch.by)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return errWrong
		}
	}
	if len(open) == 1 {
		_, err := open[0].Exec(ctx, `COMMIT`)
		return err
	}
	prepared = true
	if err := onAll(open, func(c *pgx.Conn) error { _, err := c.Exec(ctx, `PREPARE TRANSACTION '`+name+`'`); return err }); err != nil {
		return err
	}
	return onAll(open, func(c *pgx.Conn) error { _, err := c.Exec(ctx, `COMMIT PREPARED '`+name+`'`); return err })
}

// onAll does something on several connections at the same time.
func onAll(conns []*pgx.Conn, do func(*pgx.Conn) error) error {
	return parallel(len(conns), func(i int) error { return do(conns[i]) })
}
