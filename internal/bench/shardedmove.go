package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The row shardedMove moves a whole collection to another shard: in one move, and back
// chunk by chunk, while clients find and update its documents at a steady rate.

const (
	// shardedParts is in how many chunks it comes back.
	shardedParts = 64
	// shardedQuiet is how long the clients work before.
	shardedQuiet = 3 * time.Second
)

// shardedMoved is what the row measured of moves.
type shardedMoved struct {
	took    time.Duration
	cpu     time.Duration // of all processes, with that of the clients' operations
	blocked time.Duration // the longest time for which one kept writes waiting
	median  time.Duration // of that, of all moves
	load    steadyPhases
}

// shardedMove measures the row.
func (b *bench) shardedMove(ctx context.Context, c *cluster, pg *foreign) error {
	n := b.o.ShardedDocuments
	if err := c.resetBy(ctx, layout{Mixed: true}, "hashed", 1); err != nil {
		return err
	}
	if err := c.allOn(ctx, 0); err != nil {
		return err
	}
	if err := fill(ctx, c, 0, n, never); err != nil {
		return err
	}
	quiet, err := steadyWhile(ctx, c, n, func() error { return pauseFor(ctx, shardedQuiet) })
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d documents of %d bytes moved\tseconds\tdocs/s\tMB/s\tcpu/doc\tof ingest\twrites wait, ms\tat most\tfinds p50\tp99\tupdates p50\tp99\t\n", n, documentBytes)
	fmt.Fprintf(w, "before\t\t\t\t\t\t\t\t%s\t%s\t%s\t%s\t\n", micros(quiet.reads.p50), micros(quiet.reads.p99), micros(quiet.writes.p50), micros(quiet.writes.p99))
	ingested, err := rawIngest(ctx, b.dir, n)
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	once, err := c.moved(ctx, n, func() error { return c.allOn(ctx, 1) })
	if err != nil {
		return err
	}
	b.tellMoved(w, "one move", n, once, ingested)
	if err := c.splitEvenly(ctx, shardedParts); err != nil {
		return err
	}
	parts, err := c.moved(ctx, n, func() error { return c.allOn(ctx, 0) })
	if err != nil {
		return err
	}
	b.tellMoved(w, fmt.Sprintf("%d moves", shardedParts), n, parts, ingested)
	fmt.Fprintf(w, "ingest by Pebble\t%.2f\t%.0f\t%.0f\t\t\t\t\t\t\t\t\t\n", ingested.Seconds(), float64(n)/ingested.Seconds(), float64(n*documentBytes)/(1<<20)/ingested.Seconds())
	if err := w.Flush(); err != nil {
		return err
	}
	if pg != nil {
		took, cpu, err := pg.move(ctx, n)
		if err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		fmt.Fprintf(w, "\tseconds\tdocs/s\tMB/s\tcpu/doc\t\npostgres\t%.2f\t%.0f\t%.0f\t%s\t\n", took.Seconds(), float64(n)/took.Seconds(), float64(n*documentBytes)/(1<<20)/took.Seconds(), micros(cpu/time.Duration(n)))
	}
	return w.Flush()
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func (b *bench) tellMoved(w *tabwriter.Writer, name string, n int64, m *shardedMoved, ingested time.Duration) {
	fmt.Fprintf(w, "%s\t%.2f\t%.0f\t%.0f\t%s\t%.2f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t\n", name, m.took.Seconds(), float64(n)/m.took.Seconds(), float64(n*documentBytes)/(1<<20)/m.took.Seconds(),
		micros(m.cpu), ingested.Seconds()/m.took.Seconds(), float64(m.median.Milliseconds()), float64(m.blocked.Milliseconds()),
		micros(m.load.reads.p50), micros(m.load.reads.p99), micros(m.load.writes.p50), micros(m.load.writes.p99))
}

// allOn moves every chunk that is elsewhere to a shard, one after the other.
func (c *cluster) allOn(ctx context.Context, shard int) error {
	all, err := c.chunks(ctx)
	if err != nil {
		return err
	}
	for _, k := range all {
		if k.Shard == shardName(shard) {
			continue
		}
		if err := c.move(ctx, k, shardName(shard)); err != nil {
			return err
		}
	}
	return nil
}

// splitEvenly splits the only chunk of the collection into n.
func (c *cluster) splitEvenly(ctx context.Context, n int) error {
	for i := 1; i < n; i++ {
		at := math.MinInt64 + int64(math.MaxUint64/uint64(n)*uint64(i))
		if err := c.command(ctx, "admin", doc("split", "bench.documents", "middle", doc("_id", at))).Err(); err != nil {
			return err
		}
	}
	return nil
}

// moved measures moves of all n documents.
func (c *cluster) moved(ctx context.Context, n int64, moves func() error) (*shardedMoved, error) {
	used, err := cpuOf(append(c.shards, c.router, c.config)...)
	if err != nil {
		return nil, err
	}
	m, began := new(shardedMoved), time.Now()
	m.load, err = steadyWhile(ctx, c, n, func() error {
		err := moves()
		m.took = time.Since(began)
		return err
	})
	if err != nil {
		return nil, err
	}
	now, err := cpuOf(append(c.shards, c.router, c.config)...)
	if err != nil {
		return nil, err
	}
	m.cpu = (now - used) / time.Duration(n)
	return m, c.blocked(ctx, began, m)
}

// blocked reads from config.changelog how long moves have kept writes waiting since a time.
func (c *cluster) blocked(ctx context.Context, since time.Time, m *shardedMoved) error {
	cur, err := c.client.Database("config").Collection("changelog").Find(ctx, doc("what", "moveChunk.from", "time", doc("$gte", since)))
	if err != nil {
		return err
	}
	var all []struct {
		Details struct{ WritesBlockedMillis *int64 }
	}
	if err := cur.All(ctx, &all); err != nil {
		return err
	}
	var took []time.Duration
	for _, e := range all {
		if e.Details.WritesBlockedMillis != nil {
			took = append(took, time.Duration(*e.Details.WritesBlockedMillis)*time.Millisecond)
		}
	}
	if len(took) == 0 {
		return errors.New("config.changelog does not tell how long writes were blocked")
	}
	m.median, _ = percentiles(took)
	m.blocked = took[len(took)-1]
	return nil
}

// The row shardedSpread inserts ObjectIds: where they are if the collection is sharded by
// their hash, and by themselves, which rise.

// shardedSpread measures the row.
func (b *bench) shardedSpread(ctx context.Context, c *cluster, pg *foreign) error {
	n := b.o.ShardedDocuments
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d ObjectIds\ts0\ts1\ts2\tlargest difference from even\t\n", n)
	for _, r := range []struct {
		name string
		kind any
	}{{"by their hash", "hashed"}, {"by range", 1}} {
		if err := c.resetBy(ctx, layout{}, r.kind, 0); err != nil {
			return err
		}
		if err := c.insertIDs(ctx, n); err != nil {
			return err
		}
		var counts []int64
		for _, s := range c.shards {
			k, err := s.plain.CountDocuments(ctx, bson.D{})
			if err != nil {
				return err
			}
			counts = append(counts, k)
		}
		tellSpread(w, r.name, n, counts)
	}
	if pg != nil {
		counts, err := pg.spread(ctx, n)
		if err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		tellSpread(w, "postgres, numbers by their hash", n, counts)
	}
	return w.Flush()
}

func tellSpread(w *tabwriter.Writer, name string, n int64, counts []int64) {
	cells, worst, even := []string{name}, 0.0, float64(n)/float64(len(counts))
	for _, k := range counts {
		cells = append(cells, fmt.Sprint(k))
		worst = max(worst, math.Abs(float64(k)-even)/even)
	}
	fmt.Fprintf(w, "%s\t%.2f %%\t\n", strings.Join(cells, "\t"), 100*worst)
}

// insertIDs inserts documents that have nothing but an ObjectId.
func (c *cluster) insertIDs(ctx context.Context, n int64) error {
	return parallel(fillClients, func(client int) error {
		for at := int64(client) * manyDocuments; at < n; at += fillClients * manyDocuments {
			docs := make([]any, min(manyDocuments, n-at))
			for i := range docs {
				docs[i] = doc("_id", bson.NewObjectID())
			}
			if _, err := c.plain.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false)); err != nil {
				return err
			}
		}
		return nil
	})
}
