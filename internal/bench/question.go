package bench

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// question is one of the rows of analysis: the same question as a pipeline and
// in SQL. Both answer with the same rows of a name or number and further
// numbers, in any order.
type question struct {
	name     string
	pipeline func(n int64) bson.A
	sql      func(n int64) string
	// scan says that Pebble alone does the same: it reads all documents.
	scan bool
}

// doc makes a document of names and values in turn.
func doc(pairs ...any) bson.D {
	out := make(bson.D, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

// half is an amount that half of the orders exceed.
const half = 1 << 31

// few is an amount that one order in 1024 stays below.
const few = 1 << 22

// sorted is how many of the first documents a sort with a limit keeps: one in so
// many.
const sorted = 10

// lastOrders is how many of the last documents of a whole sort are read.
const lastOrders = 100

var questions = []question{
	{
		name: "matchGroup",
		pipeline: func(int64) bson.A {
			return bson.A{
				doc("$match", doc("amount", doc("$gte", int64(half)))),
				doc("$group", doc("_id", "$status", "total", sum("$amount"), "orders", sum(1))),
			}
		},
		sql: func(int64) string {
			return fmt.Sprintf(`SELECT doc->>'status', sum((doc->>'amount')::bigint), count(*) FROM orders
				WHERE (doc->>'amount')::bigint >= %d GROUP BY doc->>'status'`, half)
		},
	},
	{
		name: "groupMany",
		pipeline: func(int64) bson.A {
			return bson.A{
				doc("$group", doc("_id", "$user", "total", sum("$amount"), "orders", sum(1))),
				doc("$group", doc("_id", "all", "users", sum(1), "most", doc("$max", "$total"))),
			}
		},
		sql: func(int64) string {
			return `SELECT 'all', count(*), max(total) FROM (SELECT doc->>'user', sum((doc->>'amount')::bigint) total, count(*) orders
				FROM orders GROUP BY doc->>'user') users`
		},
	},
	{
		name: "groupSpill",
		pipeline: func(int64) bson.A {
			return bson.A{
				doc("$group", doc("_id", "$user", "last", doc("$max", "$at"), "notes", doc("$push", "$note"))),
				doc("$group", doc("_id", "all", "notes", sum(doc("$size", "$notes")), "last", doc("$max", doc("$toLong", "$last")))),
			}
		},
		sql: func(int64) string {
			return `SELECT 'all', sum(cardinality(notes)), max(last) FROM (SELECT doc->>'user', max((doc->>'at')::bigint) last,
				array_agg(doc->>'note') notes FROM orders GROUP BY doc->>'user') users`
		},
	},
	{
		name:     "sort",
		pipeline: func(n int64) bson.A { return firstBy("amount", n) },
		sql:      func(n int64) string { return firstBySQL("amount", n) },
	},
	{
		name:     "sortIndex",
		pipeline: func(n int64) bson.A { return firstBy("k", n) },
		sql:      func(n int64) string { return firstBySQL("k", n) },
	},
	{
		name: "sortAll",
		pipeline: func(n int64) bson.A {
			return bson.A{
				doc("$sort", doc("amount", 1)),
				doc("$skip", n-lastOrders),
				doc("$project", doc("amount", 1)),
			}
		},
		sql: func(n int64) string {
			return fmt.Sprintf(`SELECT doc->>'_id', doc->>'amount' FROM (SELECT doc FROM orders ORDER BY (doc->>'amount')::bigint OFFSET %d) last`, n-lastOrders)
		},
	},
	{
		name: "lookup",
		pipeline: func(int64) bson.A {
			return bson.A{
				doc("$lookup", doc("from", "customers", "localField", "customer", "foreignField", "code", "as", "buyer")),
				doc("$unwind", "$buyer"),
				doc("$group", doc("_id", "$buyer.country", "total", sum("$amount"))),
			}
		},
		sql: func(int64) string {
			return `SELECT buyer.doc->>'country', sum((orders.doc->>'amount')::bigint) FROM orders
				JOIN customers buyer ON (buyer.doc->>'code')::bigint = (orders.doc->>'customer')::bigint GROUP BY buyer.doc->>'country'`
		},
	},
	{
		name: "unwindGroup",
		pipeline: func(int64) bson.A {
			return bson.A{
				doc("$unwind", "$tags"),
				doc("$group", doc("_id", "$tags", "total", sum("$amount"), "orders", sum(1))),
			}
		},
		sql: func(int64) string {
			return `SELECT tag, sum((doc->>'amount')::bigint), count(*) FROM orders, jsonb_array_elements_text(doc->'tags') tag GROUP BY tag`
		},
	},
	{
		name: "scan",
		scan: true,
		pipeline: func(int64) bson.A {
			return bson.A{
				doc("$match", doc("amount", doc("$lt", int64(few)))),
				doc("$group", doc("_id", "all", "orders", sum(1))),
			}
		},
		sql: func(int64) string {
			return fmt.Sprintf(`SELECT 'all', count(*) FROM orders WHERE (doc->>'amount')::bigint < %d`, few)
		},
	},
}

// firstBy reads the first documents in the order of a field.
func firstBy(field string, n int64) bson.A {
	return bson.A{
		doc("$sort", doc(field, 1)),
		doc("$limit", max(n/sorted, 1)),
		doc("$group", doc("_id", "all", "customers", sum("$customer"))),
	}
}

func firstBySQL(field string, n int64) string {
	return fmt.Sprintf(`SELECT 'all', sum((doc->>'customer')::bigint) FROM (SELECT doc FROM orders ORDER BY (doc->>'%s')::bigint LIMIT %d) first`,
		field, max(n/sorted, 1))
}

// findings are what a question found, a line for each row, in order.
type findings []string

func newFindings(rows [][]string) findings {
	var a findings
	for _, r := range rows {
		a = append(a, strings.Join(r, " "))
	}
	slices.Sort(a)
	return a
}

func sum(v any) bson.D { return doc("$sum", v) }
