package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

const (
	// manyDocuments is how many documents one insertMany adds.
	manyDocuments = 1000
	// rangeDocuments is how many documents a range has.
	rangeDocuments = 100
)

// row is one kind of operation.
type row struct {
	name string
	// run does one operation; v is a random number.
	run func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error
	// documents is how many documents one operation is about.
	documents int
	// consumes says that each operation uses up one document.
	consumes bool
}

// rows are all rows, in the order of the table.
var rows = []row{
	{name: "insertOne", documents: 1, run: func(ctx context.Context, w worker, d *dataset, _ *rand.Rand) error {
		return w.insert(ctx, d.fresh(1), false)
	}},
	{name: "insertOne-j", documents: 1, run: func(ctx context.Context, w worker, d *dataset, _ *rand.Rand) error {
		return w.insert(ctx, d.fresh(1), true)
	}},
	{name: "insertMany", documents: manyDocuments, run: func(ctx context.Context, w worker, d *dataset, _ *rand.Rand) error {
		return w.insertMany(ctx, d.fresh(manyDocuments), manyDocuments, never)
	}},
	{name: "findById", documents: 1, run: func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
		return w.find(ctx, v.Int64N(d.documents))
	}},
	{name: "findByIndex", documents: 1, run: func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
		return w.findByKey(ctx, indexKey(v.Int64N(d.documents)))
	}},
	{name: "range100", documents: rangeDocuments, run: func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
		return w.scan(ctx, v.Int64N(d.documents-rangeDocuments), rangeDocuments)
	}},
	{name: "range100Index", documents: rangeDocuments, run: func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
		return w.scanByKey(ctx, v.Int64N(1<<31), rangeDocuments)
	}},
	{name: "updateOne", documents: 1, run: func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
		return w.increment(ctx, v.Int64N(d.documents), false)
	}},
	{name: "updateOne-j", documents: 1, run: func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
		return w.increment(ctx, v.Int64N(d.documents), true)
	}},
	{name: "deleteOne", documents: 1, consumes: true, run: func(ctx context.Context, w worker, d *dataset, _ *rand.Rand) error {
		return w.remove(ctx, d.victim())
	}},
	{name: "mixed50", documents: 1, run: mixed(50)},
	{name: "mixed95", documents: 1, run: mixed(95)},
}

// mixed reads by _id in so many of a hundred operations, and updates in the
// others.
func mixed(reads int) func(context.Context, worker, *dataset, *rand.Rand) error {
	return func(ctx context.Context, w worker, d *dataset, v *rand.Rand) error {
		id := v.Int64N(d.documents)
		if v.IntN(100) < reads {
			return w.find(ctx, id)
		}
		return w.increment(ctx, id, false)
	}
}

// expiryRow is the name of the row that is not in rows.
const expiryRow = "expiry"

// RowNames are the rows there are, in order.
func RowNames() []string {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	for _, q := range questions {
		names = append(names, q.name)
	}
	for _, r := range cosmosRows {
		names = append(names, r.name)
	}
	for _, r := range replicaRows {
		names = append(names, r.name)
	}
	for _, r := range shardedRows {
		names = append(names, r.name)
	}
	names = append(names, shardedMoveRow, shardedSpreadRow, shardedTargetRow, shardedExpiryRow, shardedTransferRow, shardedGroupRow)
	names = append(names, allTransactions, replicaIdleRow, replicaExpiryRow, streamsRow, initialSyncRow, operateRow, sizeRow, pointsRow, expiryRow, archiveRow, indexedRow, relayoutRow, liveRow)
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return append(names, seriesRow)
}

// choice is what a run measures.
type choice struct {
	rows      []row
	questions []question
	cosmos    []cosmosRow
	replica   []replicaRow
	idle      bool // replicaIdleRow
	setExpiry bool // replicaExpiryRow
	streams   bool // streamsRow
	sync      bool // initialSyncRow
	operate   bool // operateRow
	size      bool // sizeRow
	// transactions is true for all of allTransactions.
	transactions bool
	sharded      shardedChoice
	points       bool
	expiry       bool
	archive      bool
	indexed      bool
	relayout     bool
	live         bool
	shapes       []shape
	series       bool
}

// chooseRows picks rows by a list of names with commas between; "" is all. The
// names analysis, cosmos, replica, sharded and expiryShapes stand for all rows of these.
func chooseRows(list string) (c choice, err error) {
	if list == "" {
		return choice{rows, questions, cosmosRows, replicaRows, true, true, true, true, true, true, true, allSharded, true, true, true, true, true, true, shapes, true}, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		k := slices.IndexFunc(cosmosRows, func(r cosmosRow) bool { return r.name == name })
		m := slices.IndexFunc(replicaRows, func(r replicaRow) bool { return r.name == name })
		l := slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })
		j := slices.IndexFunc(questions, func(q question) bool { return q.name == name })
		switch {
		case name == pointsRow:
			c.points = true
		case name == expiryRow:
			c.expiry = true
		case name == archiveRow:
			c.archive = true
		case name == indexedRow:
			c.indexed = true
		case name == relayoutRow:
			c.relayout = true
		case name == liveRow:
			c.live = true
		case name == seriesRow:
			c.series = true
		case name == replicaIdleRow:
			c.idle = true
		case name == allReplica:
			c.replica, c.idle, c.setExpiry, c.sync = replicaRows, true, true, true
		case name == replicaExpiryRow:
			c.setExpiry = true
		case name == streamsRow:
			c.streams = true
		case name == allTransactions:
			c.transactions = true
		case name == initialSyncRow:
			c.sync = true
		case name == operateRow:
			c.operate = true
		case name == sizeRow:
			c.size = true
		case c.sharded.choose(name):
		case m >= 0:
			c.replica = append(c.replica, replicaRows[m])
		case name == analysisRows:
			c.questions = questions
		case name == allCosmos:
			c.cosmos = cosmosRows
		case name == allShapes:
			c.shapes = shapes
		case l >= 0:
			c.shapes = append(c.shapes, shapes[l])
		case k >= 0:
			c.cosmos = append(c.cosmos, cosmosRows[k])
		case i >= 0:
			c.rows = append(c.rows, rows[i])
		case j >= 0:
			c.questions = append(c.questions, questions[j])
		default:
			return choice{}, fmt.Errorf("there is no row %q; the rows are %s", name, strings.Join(RowNames(), ", "))
		}
	}
	return c, nil
}

// The names of several rows together.
const (
	analysisRows = "analysis"
	allCosmos    = "cosmos"
	allReplica   = "replica"
	allShapes    = "expiryShapes"
)
