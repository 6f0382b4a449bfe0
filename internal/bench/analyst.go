package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/jackc/pgx/v5"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	mayflybson "github.com/mayflydb/mayfly/internal/bson"
)

const (
	ordersName    = "orders"
	customersName = "customers"
)

func (m *mayfly) orders(ctx context.Context, n int64) error {
	orders, customers := m.collection(ordersName), m.collection(customersName)
	if err := errors.Join(orders.Drop(ctx), customers.Drop(ctx), index(ctx, orders, "k"), index(ctx, customers, "code")); err != nil {
		return err
	}
	err := insertAll(ctx, orders, n, func(id int64) mayflybson.Doc { o := newOrder(id, n); return o.bson() })
	if err == nil {
		err = insertAll(ctx, customers, customersOf(n), func(id int64) mayflybson.Doc { c := newCustomer(id); return c.bson() })
	}
	return errors.Join(err, settled(ctx, m))
}

func index(ctx context.Context, c *mongo.Collection, field string) error {
	_, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: doc(field, 1)})
	return err
}

// insertAll adds the documents 0 to n with as many clients as help.
func insertAll(ctx context.Context, c *mongo.Collection, n int64, document func(id int64) mayflybson.Doc) error {
	return parallel(fillClients, func(client int) error {
		docs := make([]any, 0, manyDocuments)
		for at := int64(client) * manyDocuments; at < n; at += fillClients * manyDocuments {
			docs = docs[:0]
			for id := at; id < min(at+manyDocuments, n); id++ {
				docs = append(docs, bson.Raw(document(id)))
			}
			if _, err := c.InsertMany(ctx, docs); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *mayfly) ask(ctx context.Context, q *question, n int64) (findings, error) {
	c, err := m.collection(ordersName).Aggregate(ctx, q.pipeline(n), options.Aggregate().SetAllowDiskUse(true))
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	var rows [][]string
	for c.Next(ctx) {
		fields, err := c.Current.Elements()
		if err != nil {
			return nil, err
		}
		var row []string
		for _, f := range fields {
			v := f.Value()
			if s, ok := v.StringValueOK(); ok {
				row = append(row, s)
			} else {
				row = append(row, strconv.FormatInt(v.AsInt64(), 10))
			}
		}
		rows = append(rows, row)
	}
	return newFindings(rows), c.Err()
}

func (p *postgres) orders(ctx context.Context, n int64) error {
	err := p.exec(ctx,
		`DROP TABLE IF EXISTS orders, customers`,
		`CREATE TABLE orders (id bigint PRIMARY KEY, doc jsonb NOT NULL)`,
		`CREATE INDEX ON orders (((doc->>'k')::bigint))`,
		`CREATE TABLE customers (id bigint PRIMARY KEY, doc jsonb NOT NULL)`,
		`CREATE INDEX ON customers (((doc->>'code')::bigint))`)
	if err != nil {
		return err
	}
	if err := p.copy(ctx, ordersName, n, func(id int64) any { return newOrder(id, n) }); err != nil {
		return err
	}
	if err := p.copy(ctx, customersName, customersOf(n), func(id int64) any { return newCustomer(id) }); err != nil {
		return err
	}
	return errors.Join(p.exec(ctx, `VACUUM ANALYZE orders`, `VACUUM ANALYZE customers`, `CHECKPOINT`), settled(ctx, p))
}

// copy adds the documents 0 to n to a table of ids and documents.
func (p *postgres) copy(ctx context.Context, table string, n int64, document func(id int64) any) error {
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	id := int64(-1)
	next := pgx.CopyFromFunc(func() ([]any, error) {
		if id++; id == n {
			return nil, nil
		}
		return []any{id, asJSON(document(id))}, nil
	})
	_, err = c.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "doc"}, next)
	return err
}

func (p *postgres) ask(ctx context.Context, q *question, n int64) (findings, error) {
	c, err := p.session(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.Query(ctx, q.sql(n), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var rows [][]string
	for found.Next() {
		var row []string
		for _, v := range found.RawValues() {
			row = append(row, string(v))
		}
		rows = append(rows, row)
	}
	return newFindings(rows), found.Err()
}

func (r *raw) orders(ctx context.Context, n int64) error {
	if err := r.db.DeleteRange([]byte{spaceOrders}, []byte{spaceOrders + 1}, pebble.Sync); err != nil {
		return err
	}
	for at := int64(0); at < n; at += manyDocuments {
		b := r.db.NewBatch()
		for id := at; id < min(at+manyDocuments, n); id++ {
			o := newOrder(id, n)
			if err := b.Set(appendNumber([]byte{spaceOrders}, id), o.bson(), nil); err != nil {
				return err
			}
		}
		if err := b.Commit(pebble.Sync); err != nil {
			return err
		}
	}
	return settled(ctx, r)
}

// ask reads all orders and looks at the amount of each, at the offset where all
// have it.
func (r *raw) ask(_ context.Context, _ *question, n int64) (findings, error) {
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceOrders}, UpperBound: []byte{spaceOrders + 1}})
	if err != nil {
		return nil, err
	}
	some := newOrder(0, n)
	at := amountAt(some.bson())
	found := 0
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		if (mayflybson.Value{Type: mayflybson.TypeInt64, Data: v[at : at+8]}).Int64() < few {
			found++
		}
	}
	return newFindings([][]string{{"all", fmt.Sprint(found)}}), it.Close()
}

// amountAt is the offset of an order's amount: all fields before it have the
// same size in all orders.
func amountAt(d mayflybson.Doc) int {
	const before = "\x12amount\x00" // its type and its name
	return bytes.Index(d, []byte(before)) + len(before)
}
