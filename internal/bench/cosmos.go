package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/cosmos"
)

// The rows of the Cosmos DB endpoint: a program of its own (e2e/cosmos/sdk/load)
// sends requests through azcosmos; for comparison the MongoDB driver sends the same server
// the same operations on documents of the same fields, in a collection of its own.

// cosmosRow is an operation on both sides.
type cosmosRow struct {
	name string
	// op is its name in the program.
	op string
	// mongo does the same with number n.
	mongo func(ctx context.Context, items *mongo.Collection, n, total int64) error
}

const (
	// itemsPerPartition is how many items a logical partition has, as in the
	// program.
	itemsPerPartition = 20
	itemPad           = 200
)

var cosmosRows = []cosmosRow{
	{"cosmosRead", "read", func(ctx context.Context, c *mongo.Collection, n, total int64) error {
		it := newItem(n % total)
		d, err := c.FindOne(ctx, doc("_id", it.ID)).Raw()
		if err == nil && d.Lookup("n").AsInt64() != it.N {
			return errWrong
		}
		return err
	}},
	{"cosmosCreate", "create", func(ctx context.Context, c *mongo.Collection, n, total int64) error {
		_, err := c.InsertOne(ctx, newItem(total+n))
		return err
	}},
	{"cosmosUpsert", "upsert", func(ctx context.Context, c *mongo.Collection, n, total int64) error {
		it := newItem(n % total)
		_, err := c.ReplaceOne(ctx, doc("_id", it.ID), it, options.Replace().SetUpsert(true))
		return err
	}},
	{"cosmosQuery", "query", func(ctx context.Context, c *mongo.Collection, n, total int64) error {
		found, err := c.Find(ctx, doc("pk", newItem(n%total).PK, "n", doc("$gte", 0)))
		if err != nil {
			return err
		}
		defer found.Close(ctx)
		rows := 0
		for found.Next(ctx) {
			rows++
		}
		if found.Err() == nil && rows != itemsPerPartition {
			return errWrong
		}
		return found.Err()
	}},
}

// item is an item of the program's, with its id as _id.
type item struct {
	ID  string `bson:"_id"`
	PK  string `bson:"pk"`
	N   int64  `bson:"n"`
	Pad string `bson:"pad"`
}

func newItem(id int64) item {
	return item{"i" + strconv.FormatInt(id, 10), "p" + strconv.FormatInt(id/itemsPerPartition, 10), id, padding[:itemPad]}
}

// endpoint is the one that the program sends requests to.
type endpoint struct {
	port int
	cpu  func() (time.Duration, error)
}

// cosmos measures the rows with the largest number of clients, also on a
// hollow server: its ratio to the MongoDB side is the highest possible.
func (b *bench) cosmos(ctx context.Context, chosen []cosmosRow) (err error) {
	clients := b.o.Clients[len(b.o.Clients)-1]
	own := endpoint{b.server.cosmos, b.server.cpu}
	if _, err := b.load(ctx, own, "fill", clients); err != nil {
		return err
	}
	var hollow *endpoint
	if b.o.Hollow {
		p, port, err := startHollowCosmos(ctx, b.dir, b.o.Self)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.stop(syscall.SIGKILL)) }()
		hollow = &endpoint{port, p.cpu}
	}
	items, err := b.fillItems(ctx)
	if err != nil {
		return err
	}
	if err := settled(ctx, b.server); err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d clients\tcosmos ops/s\tp50\tp99\tcpu/op\tclient\tmongodb ops/s\tp50\tp99\tcpu/op\tclient\tratio\thollow ops/s\tcpu/op\tclient\tat most\t\n", clients)
	for _, r := range chosen {
		profiled := b.profile(ctx, r.name, b.o.Duration)
		sdk, err := b.load(ctx, own, r.op, clients)
		if err := errors.Join(err, profiled()); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		m, err := b.onItems(ctx, r, items, clients)
		if err != nil {
			return fmt.Errorf("%s of MongoDB: %w", r.name, err)
		}
		fmt.Fprintf(w, "%s\t", r.name)
		for _, side := range []*result{sdk, m} {
			for _, cell := range side.cells(1) {
				fmt.Fprintf(w, "%s\t", cell)
			}
		}
		fmt.Fprintf(w, "%.2f\t", sdk.perSecond()/m.perSecond())
		if hollow != nil {
			limit, err := b.load(ctx, *hollow, r.op, clients)
			if err != nil {
				return fmt.Errorf("hollow: %s: %w", r.name, err)
			}
			cells := limit.cells(1)
			fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t", cells[0], cells[3], cells[4], limit.perSecond()/m.perSecond())
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// fillItems makes the collection of the MongoDB side.
func (b *bench) fillItems(ctx context.Context) (*mongo.Collection, error) {
	// The collection called items is the container itself.
	c := b.server.collection("plainItems")
	if err := errors.Join(c.Drop(ctx), index(ctx, c, "pk")); err != nil {
		return nil, err
	}
	var all []any
	for id := range b.o.Items {
		all = append(all, newItem(id))
		if len(all) == manyDocuments || id == b.o.Items-1 {
			if _, err := c.InsertMany(ctx, all); err != nil {
				return nil, err
			}
			all = all[:0]
		}
	}
	return c, nil
}

// onItems measures the MongoDB side.
func (b *bench) onItems(ctx context.Context, r cosmosRow, items *mongo.Collection, clients int) (*result, error) {
	data := newDataset(0)
	asRow := row{name: r.name, documents: 1, run: func(ctx context.Context, _ worker, d *dataset, v *rand.Rand) error {
		if r.op == "create" {
			return r.mongo(ctx, items, d.fresh(1), b.o.Items)
		}
		return r.mongo(ctx, items, v.Int64N(b.o.Items), b.o.Items)
	}}
	return measure(ctx, b.server, data, asRow, clients, b.o.Duration)
}

// load runs the program.
func (b *bench) load(ctx context.Context, e endpoint, op string, clients int) (*result, error) {
	if _, err := os.Stat(b.o.CosmosLoad); err != nil {
		return nil, fmt.Errorf("%w: `make bench` builds it, from e2e/cosmos/sdk/load", err)
	}
	used, err := e.cpu()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.o.CosmosLoad, "-endpoint", "http://"+local(e.port), "-key", cosmos.WellKnownKey, "-op", op,
		"-items", strconv.FormatInt(b.o.Items, 10), "-base", strconv.FormatInt(b.o.Items, 10),
		"-clients", strconv.Itoa(clients), "-duration", b.o.Duration.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil || op == "fill" {
		return nil, err
	}
	after, err := e.cpu()
	if err != nil {
		return nil, err
	}
	var m struct{ Ops, Elapsed, P50, P99 int64 }
	if err := json.Unmarshal(out, &m); err != nil {
		return nil, err
	}
	ops := time.Duration(m.Ops)
	return &result{ops: m.Ops, elapsed: time.Duration(m.Elapsed), p50: time.Duration(m.P50), p99: time.Duration(m.P99),
		cpu: (after - used) / ops, client: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()) / ops}, nil
}
