package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// The rows of transactions: on replica sets of one member and of three, beside PostgreSQL
// (with two standbys for three) at repeatable read. A commit is on the disk before it is
// answered, of two members where there are three. Who meets another one tries again.

const (
	allTransactions    = "transactions"
	transactionClients = 8
	// crowdedAccounts are those among which transfers meet.
	crowdedAccounts = 100
)

// transactor is a worker that has transactions.
type transactor interface {
	worker
	// transfer adds to one document and takes from another one. It returns how often it had
	// to begin anew.
	transfer(ctx context.Context, from, to int64) (retries int64, err error)
	// insertIn inserts one document in a transaction.
	insertIn(ctx context.Context, id int64) error
}

// transactionRow is a kind of transaction.
type transactionRow struct {
	name string
	run  func(ctx context.Context, w transactor, d *dataset, v *rand.Rand) (retries int64, err error)
}

var transactionRows = []transactionRow{
	{"transfer", func(ctx context.Context, w transactor, d *dataset, v *rand.Rand) (int64, error) {
		return transferAmong(ctx, w, d.documents, v)
	}},
	{"transferCrowded", func(ctx context.Context, w transactor, _ *dataset, v *rand.Rand) (int64, error) {
		return transferAmong(ctx, w, crowdedAccounts, v)
	}},
	{"insertInTransaction", func(ctx context.Context, w transactor, d *dataset, _ *rand.Rand) (int64, error) {
		return 0, w.insertIn(ctx, d.fresh(1))
	}},
	{"insertPlain", func(ctx context.Context, w transactor, d *dataset, _ *rand.Rand) (int64, error) {
		return 0, w.insert(ctx, d.fresh(1), true)
	}},
}

func transferAmong(ctx context.Context, w transactor, accounts int64, v *rand.Rand) (int64, error) {
	from := v.Int64N(accounts)
	return w.transfer(ctx, from, (from+1+v.Int64N(accounts-1))%accounts)
}

// transactionWorker is a client of a set, with a session.
type transactionWorker struct {
	mayflyWorker
	s *mongo.Session
}

// transactionSet is a set whose workers have transactions.
type transactionSet struct{ *replicaSet }

func (s transactionSet) worker(context.Context) (worker, error) {
	session, err := s.client.StartSession()
	return &transactionWorker{mayflyWorker{&s.mayfly}, session}, err
}

func (w *transactionWorker) close() error {
	w.s.EndSession(context.Background())
	return nil
}

// transactionHollow is the server that has every answer ready, whose workers have transactions:
// what the driver and the round trips of a transaction cost, whoever answers.
type transactionHollow struct{ *mayfly }

func (s transactionHollow) worker(context.Context) (worker, error) {
	session, err := s.client.StartSession()
	return &transactionWorker{mayflyWorker{s.mayfly}, session}, err
}

// transact runs a transaction until it is committed.
func (w *transactionWorker) transact(ctx context.Context, f func(context.Context) error) (retries int64, err error) {
	in := mongo.NewSessionContext(ctx, w.s)
	for ; ; retries++ {
		if err := w.s.StartTransaction(); err != nil {
			return retries, err
		}
		if err = f(in); err == nil {
			err = w.s.CommitTransaction(ctx)
		}
		if err == nil {
			return retries, nil
		}
		_ = w.s.AbortTransaction(ctx) // the server has done so already
		var known mongo.LabeledError
		if !errors.As(err, &known) || !known.HasErrorLabel("TransientTransactionError") {
			return retries, err
		}
	}
}

func (w *transactionWorker) add(ctx context.Context, id int64, n int) error {
	r, err := w.m.plain.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int64(n)}}}})
	if err == nil && r.ModifiedCount != 1 {
		return errWrong
	}
	return err
}

func (w *transactionWorker) transfer(ctx context.Context, from, to int64) (int64, error) {
	return w.transact(ctx, func(ctx context.Context) error {
		if err := w.add(ctx, from, -1); err != nil {
			return err
		}
		return w.add(ctx, to, 1)
	})
}

func (w *transactionWorker) insertIn(ctx context.Context, id int64) error {
	_, err := w.transact(ctx, func(ctx context.Context) error {
		_, err := w.m.plain.InsertOne(ctx, document(id, never, w.m.padding))
		return err
	})
	return err
}

// postgresTransactor is a client of PostgreSQL with transactions.
type postgresTransactor struct{ *postgresWorker }

// transactionPostgres is a PostgreSQL whose workers have transactions.
type transactionPostgres struct{ system }

func (p transactionPostgres) worker(ctx context.Context) (worker, error) {
	w, err := p.system.worker(ctx)
	if err != nil {
		return nil, err
	}
	return &postgresTransactor{w.(*postgresWorker)}, nil
}

// Codes of PostgreSQL. The last one ends those that wait for each other on different servers.
const (
	deadlockDetected = "40P01"
	lockNotAvailable = "55P03"
)

// mayPass reports whether a transaction that failed is begun anew.
func mayPass(err *pgconn.PgError) bool {
	return err.Code == serializationFailure || err.Code == deadlockDetected || err.Code == lockNotAvailable
}

func (w *postgresTransactor) transact(ctx context.Context, f func(pgx.Tx) error) (retries int64, err error) {
	for ; ; retries++ {
		tx, err := w.journaled.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			return retries, err
		}
		if err = f(tx); err == nil {
			err = tx.Commit(ctx)
		}
		if err == nil {
			return retries, nil
		}
		_ = tx.Rollback(ctx) // it has failed already
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || !mayPass(refused) {
			return retries, err
		}
	}
}

// postgresAdd adds $2 to the number of row $1.
const postgresAdd = `UPDATE documents SET doc = jsonb_set(doc, '{n}', to_jsonb((doc->>'n')::bigint + $2)) WHERE id = $1`

func (w *postgresTransactor) transfer(ctx context.Context, from, to int64) (int64, error) {
	return w.transact(ctx, func(tx pgx.Tx) error {
		for i, id := range []int64{from, to} {
			tag, err := tx.Exec(ctx, postgresAdd, id, int64(2*i-1))
			if err == nil && tag.RowsAffected() != 1 {
				err = errWrong
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *postgresTransactor) insertIn(ctx context.Context, id int64) error {
	_, err := w.transact(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO documents VALUES ($1, $2)`, id, jsonDocument(id, never, w.padding))
		return err
	})
	return err
}

// transactions measures the rows of transactions.
func (b *bench) transactions(ctx context.Context) error {
	for _, members := range []int{1, setMembers} {
		if err := b.transactionsOn(ctx, members); err != nil {
			return fmt.Errorf("transactions on %d members: %w", members, err)
		}
	}
	return nil
}

// transactionsOn measures them on a set.
func (b *bench) transactionsOn(ctx context.Context, members int) (err error) {
	set, err := startSetOf(ctx, b.dir, fmt.Sprintf("transactions-%d", members), members, &b.o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, set.close()) }()
	systems := []system{transactionSet{set}}
	switch {
	case !b.o.Postgres:
	case members == 1:
		systems = append(systems, transactionPostgres{b.pg})
	default:
		dir := filepath.Join(b.dir, allTransactions)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		pg, err := startStandbys(ctx, dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, pg.close()) }()
		systems = append(systems, transactionPostgres{pg})
	}
	var data []*dataset
	for _, s := range systems {
		if err := s.reset(ctx, layout{}); err != nil {
			return err
		}
		if err := fill(ctx, s, 0, b.o.Documents, never); err != nil {
			return err
		}
		data = append(data, newDataset(b.o.Documents))
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if b.hollow != nil {
		systems, data = append(systems, transactionHollow{b.hollow}), append(data, newDataset(b.o.Documents))
	}
	fmt.Fprintf(w, "\ntransactions, %d member(s)\tclients\tops/s\tp50\tp99\tcpu/op\tclient\tretries/op\t", members)
	if b.o.Postgres {
		fmt.Fprint(w, "pg ops/s\tp50\tp99\tcpu/op\tclient\tretries/op\tratio\t")
	}
	if b.hollow != nil {
		fmt.Fprint(w, "hollow ops/s\tp50\tp99\tcpu/op\tclient\tratio\t")
	}
	fmt.Fprintln(w)
	for _, r := range transactionRows {
		cells := []string{r.name, fmt.Sprint(transactionClients)}
		var first float64
		for i, s := range systems {
			m, retries, err := b.transactionRow(ctx, set, s, data[i], r)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			cells = append(cells, m.cells(1)...)
			if _, hollow := s.(transactionHollow); !hollow {
				cells = append(cells, fmt.Sprintf("%.2f", float64(retries)/float64(max(m.ops, 1))))
			}
			if i == 0 {
				first = m.perSecond()
			} else {
				cells = append(cells, fmt.Sprintf("%.2f", first/m.perSecond()))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	return w.Flush()
}

// transactionRow measures one row on one system.
func (b *bench) transactionRow(ctx context.Context, set *replicaSet, s system, d *dataset, r transactionRow) (m *result, n int64, err error) {
	var retries atomic.Int64
	run := row{name: r.name, documents: 1, run: func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
		again, err := r.run(ctx, w.(transactor), d, v)
		retries.Add(again)
		return err
	}}
	profiled := func() error { return nil }
	if _, ours := s.(transactionSet); ours {
		if profiled, err = b.profileSet(ctx, set, fmt.Sprintf("%s-%d", r.name, len(set.members))); err != nil {
			return nil, 0, err
		}
	}
	m, err = measure(ctx, s, d, run, transactionClients, b.o.Duration)
	return m, retries.Load(), errors.Join(err, profiled())
}
