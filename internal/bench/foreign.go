package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// foreign is three PostgreSQL servers, and a fourth with a table that is partitioned by the
// hash of its key over them (postgres_fdw). Each server has its commits on its disk before
// it answers, as a shard has.
type foreign struct {
	*postgres // the one with the partitioned table
	servers   []*postgres
}

// foreignSettings are postgresSettings of all four. Each connection of a client to the
// first takes one to each of the others.
var foreignSettings = append(postgresSettings[:len(postgresSettings):len(postgresSettings)],
	"synchronous_commit=on", "max_prepared_transactions="+strconv.Itoa(4*shardedClients), "lock_timeout=1s", "max_connections="+strconv.Itoa(2*shardedClients+32), "shared_buffers=256MB")

func startForeign(ctx context.Context, dir string) (_ *foreign, err error) {
	f := &foreign{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	statements := []string{`CREATE EXTENSION postgres_fdw`}
	for i := range clusterShards {
		data, err := postgresCluster(dir, fmt.Sprintf("postgres-shard-%d", i))
		if err != nil {
			return f, err
		}
		p, err := runPostgres(ctx, data, foreignSettings)
		if err != nil {
			return f, err
		}
		f.servers = append(f.servers, p)
		statements = append(statements,
			fmt.Sprintf(`CREATE SERVER s%d FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '%d', dbname 'postgres', batch_size '%d', fetch_size '10000', async_capable 'true')`, i, p.port, manyDocuments),
			fmt.Sprintf(`CREATE USER MAPPING FOR %s SERVER s%d OPTIONS (user '%[1]s', password_required 'false')`, postgresUser, i))
	}
	data, err := postgresCluster(dir, "postgres-router")
	if err != nil {
		return f, err
	}
	if f.postgres, err = runPostgres(ctx, data, foreignSettings); err != nil {
		return f, err
	}
	return f, f.exec(ctx, statements...)
}

func (f *foreign) reset(ctx context.Context, l layout) error {
	f.padding = l.padding()
	if err := f.exec(ctx, `DROP TABLE IF EXISTS documents`, `CREATE TABLE documents (id bigint NOT NULL, doc jsonb NOT NULL) PARTITION BY HASH (id)`); err != nil {
		return err
	}
	for i, p := range f.servers {
		if err := p.reset(ctx, l); err != nil {
			return err
		}
		part := fmt.Sprintf(`CREATE FOREIGN TABLE documents_%d PARTITION OF documents FOR VALUES WITH (MODULUS %d, REMAINDER %d) SERVER s%d OPTIONS (table_name 'documents')`, i, clusterShards, i, i)
		if err := f.exec(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// worker is one client of the partitioned table.
func (f *foreign) worker(ctx context.Context) (worker, error) {
	w, err := f.postgres.worker(ctx)
	if err != nil {
		return nil, err
	}
	return &foreignWorker{w.(*postgresWorker)}, nil
}

// foreignWorker tries again what two clients did to one row at the same time: transactions
// of postgres_fdw are repeatable reads.
type foreignWorker struct{ *postgresWorker }

func (w *foreignWorker) increment(ctx context.Context, id int64, journaled bool) error {
	for {
		err := w.postgresWorker.increment(ctx, id, journaled)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != serializationFailure {
			return err
		}
	}
}

// serializationFailure is PostgreSQL's code for that.
const serializationFailure = "40001"

// generate makes the documents [first, first+n) on one server, without a client.
func (p *postgres) generate(ctx context.Context, first, n, due int64) error {
	return p.exec(ctx, fmt.Sprintf(`INSERT INTO documents SELECT id, jsonb_build_object('_id', id, 'k', id * 2654435761 %% 4294967296, 'n', 0, 'due', %d::bigint, 'pad', repeat('x', %d)) FROM generate_series(%d::bigint, %d::bigint) AS id`,
		due, len(p.padding), first, first+n-1), `VACUUM ANALYZE documents`, `CHECKPOINT`)
}

// move moves n rows from one server to another by way of the first, and empties the table
// that had them.
func (f *foreign) move(ctx context.Context, n int64) (took, cpu time.Duration, err error) {
	if err := f.reset(ctx, layout{}); err != nil {
		return 0, 0, err
	}
	if err := f.servers[0].generate(ctx, 0, n, never); err != nil {
		return 0, 0, err
	}
	if err := f.exec(ctx, `DROP TABLE documents`,
		`CREATE FOREIGN TABLE source (id bigint NOT NULL, doc jsonb NOT NULL) SERVER s0 OPTIONS (table_name 'documents')`,
		`CREATE FOREIGN TABLE target (id bigint NOT NULL, doc jsonb NOT NULL) SERVER s1 OPTIONS (table_name 'documents')`); err != nil {
		return 0, 0, err
	}
	return f.timed(func() error {
		return f.exec(ctx, `INSERT INTO target SELECT * FROM source`, `TRUNCATE source`, `DROP FOREIGN TABLE source, target`)
	})
}

// timed measures what do takes.
func (f *foreign) timed(do func() error) (took, cpu time.Duration, err error) {
	used, err := f.cpu()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	now, err := f.cpu()
	return took, now - used, err
}

// spread is how many of n numbers belong to each partition.
func (f *foreign) spread(ctx context.Context, n int64) ([]int64, error) {
	if err := f.reset(ctx, layout{}); err != nil {
		return nil, err
	}
	c, err := f.session(ctx)
	if err != nil {
		return nil, err
	}
	counts := make([]int64, clusterShards)
	for i := range counts {
		err := c.QueryRow(ctx, `SELECT count(*) FROM generate_series(1, $1::bigint) AS id WHERE satisfies_hash_partition('documents'::regclass, $2, $3, id)`, n, clusterShards, i).Scan(&counts[i])
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// expireDue removes n rows that are due from all servers, and vacuums the tables.
func (f *foreign) expireDue(ctx context.Context, n int64) (took, cpu time.Duration, err error) {
	if err := f.reset(ctx, layout{Due: true}); err != nil {
		return 0, 0, err
	}
	due := time.Now().UnixMilli() - dueSpread
	if err := parallel(clusterShards, func(i int) error {
		return f.servers[i].generate(ctx, int64(i)*n, n/clusterShards, due)
	}); err != nil {
		return 0, 0, err
	}
	return f.timed(func() error {
		if err := f.exec(ctx, fmt.Sprintf(`DELETE FROM documents WHERE (doc->>'due')::bigint <= %d`, due)); err != nil {
			return err
		}
		return parallel(clusterShards, func(i int) error { return f.servers[i].exec(ctx, `VACUUM documents`) })
	})
}

// analyze gathers statistics, as autovacuum is off.
func (f *foreign) analyze(ctx context.Context) error {
	for _, p := range f.servers {
		if err := p.exec(ctx, `VACUUM ANALYZE documents`, `CHECKPOINT`); err != nil {
			return err
		}
	}
	return f.exec(ctx, `ANALYZE documents`)
}

func (f *foreign) cpu() (total time.Duration, err error) {
	for _, p := range append(f.servers, f.postgres) {
		used, err := p.cpu()
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

func (f *foreign) close() (err error) {
	for _, p := range append(f.servers, f.postgres) {
		if p != nil {
			err = errors.Join(err, p.close())
		}
	}
	return err
}
