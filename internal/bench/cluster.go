package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// cluster is a config server, shards and a router on this machine, each a process and each
// set of one member, and a driver's client of the router. The balancer is off.
type cluster struct {
	mayfly // only the client's side is used, of the router
	router *mayfly
	config *mayfly
	shards []*mayfly
}

// clusterShards is how many shards a cluster has when it is complete.
const clusterShards = 3

// startCluster starts all processes, of which the first shard is in the cluster.
func startCluster(ctx context.Context, dir string, o *Options) (_ *cluster, err error) {
	c := &cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	member := func(name, role string) (*mayfly, error) {
		m, err := startServer(ctx, dir, name, o, role, "--replSet", name, "--initiate", "--bind_ip", "127.0.0.1",
			"--setParameter", "ttlMonitorEnabled=false", "--setParameter", "ttlMonitorSleepSecs=1")
		if err != nil {
			return nil, err
		}
		return m, m.connect("mongodb://" + local(m.port) + "/?directConnection=true")
	}
	if c.config, err = member("config", "--configsvr"); err != nil {
		return c, err
	}
	for i := range clusterShards {
		s, err := member(shardName(i), "--shardsvr")
		if err != nil {
			return c, err
		}
		c.shards = append(c.shards, s)
	}
	if c.router, err = startRouter(ctx, dir, o, "config/"+local(c.config.port)); err != nil {
		return c, err
	}
	if err := c.connect("mongodb://" + local(c.router.port)); err != nil {
		return c, err
	}
	c.padding, c.unordered = padding, true
	if err := c.add(ctx, 0); err != nil {
		return c, err
	}
	return c, c.command(ctx, "admin", doc("balancerStop", 1)).Err()
}

func shardName(i int) string { return "s" + strconv.Itoa(i) }

// startRouter starts a router.
func startRouter(ctx context.Context, dir string, o *Options, config string) (*mayfly, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	admin, err := freePort()
	if err != nil {
		return nil, err
	}
	m := &mayfly{admin: admin, port: port, dir: filepath.Join(dir, "router"), args: []string{o.Binary, "router", "--configdb", config, "--port", strconv.Itoa(port),
		"--bind_ip", "127.0.0.1", "--nounixsocket", "--adminPprof", "--adminPort", strconv.Itoa(admin)}}
	return m, m.run(ctx)
}

// command runs a command by the router.
func (c *cluster) command(ctx context.Context, db string, command bson.D) *mongo.SingleResult {
	return c.client.Database(db).RunCommand(ctx, command)
}

// add makes a process a shard of the cluster, as soon as it is the primary of its set.
func (c *cluster) add(ctx context.Context, i int) (err error) {
	for begun := time.Now(); time.Since(begun) < startTimeout; time.Sleep(50 * time.Millisecond) {
		err = c.command(ctx, "admin", doc("addShard", shardName(i)+"/"+local(c.shards[i].port), "name", shardName(i))).Err()
		if err == nil {
			return nil
		}
	}
	return err
}

// grow makes the other processes shards.
func (c *cluster) grow(ctx context.Context) error {
	for i := 1; i < clusterShards; i++ {
		if err := c.add(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// reset leaves an empty collection that is sharded by the hash of its _id.
func (c *cluster) reset(ctx context.Context, l layout) error { return c.resetBy(ctx, l, "hashed", 0) }

// resetBy leaves an empty collection that is sharded by its _id: kind is "hashed", or 1 for
// ranges. It has that many chunks, 0 for as many as usual.
func (c *cluster) resetBy(ctx context.Context, l layout, kind any, chunks int) error {
	c.padding, c.mixed = l.padding(), l.Mixed
	if err := c.plain.Drop(ctx); err != nil {
		return err
	}
	shard := doc("shardCollection", "bench.documents", "key", doc("_id", kind))
	if chunks > 0 {
		shard = append(shard, bson.E{Key: "numInitialChunks", Value: chunks})
	}
	if err := c.command(ctx, "admin", shard).Err(); err != nil {
		return err
	}
	_, err := c.plain.Indexes().CreateMany(ctx, l.models())
	return err
}

func (c *cluster) worker(context.Context) (worker, error) { return &mayflyWorker{&c.mayfly}, nil }

// cpu is the processor time of the router and the shards.
func (c *cluster) cpu() (time.Duration, error) { return cpuOf(append(c.shards, c.router)...) }

func cpuOf(all ...*mayfly) (total time.Duration, err error) {
	for _, m := range all {
		used, err := m.cpu()
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

// chunk is a part of config.chunks.
type chunk struct {
	Min, Max bson.D
	Shard    string
}

// chunks are those of the collection, in order.
func (c *cluster) chunks(ctx context.Context) (all []chunk, err error) {
	cur, err := c.client.Database("config").Collection("collections").Aggregate(ctx, bson.A{
		doc("$match", doc("_id", "bench.documents")),
		doc("$lookup", doc("from", "chunks", "localField", "uuid", "foreignField", "uuid", "as", "of")),
		doc("$unwind", "$of"), doc("$replaceRoot", doc("newRoot", "$of")), doc("$sort", doc("min", 1)),
	})
	if err != nil {
		return nil, err
	}
	return all, cur.All(ctx, &all)
}

// move moves a chunk.
func (c *cluster) move(ctx context.Context, k chunk, to string) error {
	err := c.command(ctx, "admin", doc("moveRange", "bench.documents", "min", k.Min, "max", k.Max, "toShard", to)).Err()
	if err != nil {
		return fmt.Errorf("moving %v to %s: %w", k.Min, to, err)
	}
	return nil
}

// direct is the first shard alone, with a collection of which the cluster does not know.
func (c *cluster) direct() *directShard {
	m := *c.shards[0]
	m.plain = m.client.Database("direct").Collection("documents")
	m.journaled, m.unordered = m.plain, true
	return &directShard{m}
}

// directShard is a shard that is asked without a router.
type directShard struct{ mayfly }

func (d *directShard) worker(context.Context) (worker, error) { return &mayflyWorker{&d.mayfly}, nil }

func (c *cluster) close() (err error) {
	if c.client != nil {
		_ = c.client.Disconnect(context.Background()) // the router goes anyway
	}
	for _, m := range append([]*mayfly{c.router, c.config}, c.shards...) {
		if m != nil {
			err = errors.Join(err, m.close())
		}
	}
	return err
}
