package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/wire"
)

const (
	// demoClusterDirectory has the directories of the cluster's servers.
	demoClusterDirectory = "data/demo-cluster"
	// demoClusterShards is how many shards the demo starts, of which demoFirstShards have
	// documents at first.
	demoClusterShards, demoFirstShards = 3, 2
	// demoGrowAfter is when the last shard is added, demoMoveAfter the pause before what
	// each of the others gives it.
	demoGrowAfter = 8 * time.Second
	demoMoveAfter = 4 * time.Second
	// demoClusterSessions is how many sample documents there are.
	demoClusterSessions = 30_000
	// demoBatch is how many of them are inserted at once.
	demoBatch = 5000
	// demoDDL is how long a change of the cluster may take.
	demoDDL = 30 * time.Second
)

// demoCluster is the cluster of the demo.
type demoCluster struct {
	config, router *demoProcess
	shards         []*demoProcess
	conn           *client.Conn // to the router
}

// runDemoCluster runs config servers, three shards and a router on this machine, each a
// process, with sessions that are spread by hash and expire; two shards give the third
// its part.
func runDemoCluster(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(demoClusterDirectory), os.MkdirAll(demoClusterDirectory, 0o755)); err != nil {
		return err
	}
	ports, err := demoPorts(demoPort, demoClusterShards+2)
	if err != nil {
		return err
	}
	d := newDemoCluster(ports)
	defer func() {
		if d.conn != nil {
			_ = d.conn.Close()
		}
		for _, p := range d.all() {
			p.end(syscall.SIGTERM)
		}
	}()
	for _, p := range d.all() {
		if err := p.start(); err != nil {
			return err
		}
	}
	if d.conn, err = d.router.connect(ctx); err != nil {
		return err
	}
	for _, s := range d.shards[:demoFirstShards] {
		if err := d.add(ctx, s); err != nil {
			return err
		}
	}
	if err := d.fill(ctx); err != nil {
		return err
	}
	d.introduce()
	return d.show(ctx)
}

// newDemoCluster is a cluster whose processes do not run yet.
func newDemoCluster(ports []int) *demoCluster {
	member := func(name, role string, port int) *demoProcess {
		dir := filepath.Join(demoClusterDirectory, name)
		return &demoProcess{name: name, port: port, log: dir + ".log",
			args: []string{"serve", role, "--replSet", name, "--initiate", "--dbpath", dir, "--setParameter", "ttlMonitorSleepSecs=1"}}
	}
	d := &demoCluster{config: member("config", "--configsvr", ports[1])}
	for i := range demoClusterShards {
		d.shards = append(d.shards, member(fmt.Sprintf("s%d", i), "--shardsvr", ports[2+i]))
	}
	d.router = &demoProcess{name: "router", port: ports[0], log: filepath.Join(demoClusterDirectory, "router.log"),
		args: []string{"router", "--configdb", "config/" + d.config.host()}}
	return d
}

// all are the processes, those that ask others before those that answer.
func (d *demoCluster) all() []*demoProcess {
	return append(append([]*demoProcess{d.router}, d.shards...), d.config)
}

// admin runs a command on the router.
func (d *demoCluster) admin(ctx context.Context, command *bson.Builder) error {
	ctx, cancel := context.WithTimeout(ctx, demoDDL)
	defer cancel()
	_, err := d.conn.Run(ctx, "admin", command.Finish())
	return err
}

// add makes a process a shard of the cluster. It may not be the primary of its set yet.
func (d *demoCluster) add(ctx context.Context, s *demoProcess) error {
	return retryDemo(ctx, d.all(), func() error {
		return d.admin(ctx, new(bson.Builder).String("addShard", s.name+"/"+s.host()).String("name", s.name))
	})
}

// fill makes the collection of sessions, spread over the shards by the hash of its key.
func (d *demoCluster) fill(ctx context.Context) error {
	ns := demoDB + "." + demoCollection
	if err := d.admin(ctx, new(bson.Builder).String("shardCollection", ns).OpenDoc("key").String("_id", "hashed").Close()); err != nil {
		return err
	}
	index := new(bson.Builder).OpenDoc("key").Int32("expiresAt", 1).Close().String("name", "expiresAt_1").Int32("expireAfterSeconds", 0).Finish()
	if _, err := d.conn.Run(ctx, demoDB, new(bson.Builder).String("createIndexes", demoCollection).OpenArray("indexes").Doc("0", index).Close().Finish()); err != nil {
		return err
	}
	docs := make([]bson.Doc, 0, demoBatch)
	for i := range demoClusterSessions {
		at := time.Now().Add(time.Duration(rand.Int64N(int64(demoSpread))))
		docs = append(docs, new(bson.Builder).Int32("_id", int32(i)).String("user", fmt.Sprintf("user%d", i%50)).Date("expiresAt", at.UnixMilli()).Finish())
		if len(docs) < demoBatch && i+1 < demoClusterSessions {
			continue
		}
		reply, err := d.conn.Run(ctx, demoDB, new(bson.Builder).String("insert", demoCollection).Finish(), wire.NewSequence("documents", docs...))
		if err != nil {
			return err
		}
		if failed := reply.Lookup("writeErrors"); !failed.IsMissing() {
			return fmt.Errorf("the sample data was refused: %s", failed)
		}
		docs = docs[:0]
	}
	return nil
}

// introduce says what there is to see.
func (d *demoCluster) introduce() {
	var shards []string
	for _, s := range d.shards {
		shards = append(shards, s.name+" on "+s.host())
	}
	fmt.Printf("\nMayfly is running as a cluster: config servers on %s, shards %s, a router on %s.\n"+
		"%d sessions, spread over two shards by the hash of _id, expire over the next %s. Look at them, at sh.status() and at db.%s.getShardDistribution():\n\n"+
		"  %s mongodb://%s/%s\n\nIn a moment the third shard is added, and the others give it its part.\n\n",
		d.config.host(), strings.Join(shards, ", "), d.router.host(), demoClusterSessions, demoSpread, demoCollection, demoShell(), d.router.host(), demoDB)
}

// show prints every second what each shard has, and meanwhile adds the last shard and
// moves ranges to it.
func (d *demoCluster) show(ctx context.Context) error {
	newest := d.shards[demoClusterShards-1]
	steps := []func() error{func() error {
		demoLine("a third shard: %s", newest.name)
		return d.add(ctx, newest)
	}}
	for _, r := range d.parts(newest) {
		steps = append(steps, func() error { return d.move(ctx, r) })
	}
	next := time.Now().Add(demoGrowAfter)
	for {
		for _, p := range d.all() {
			if err := p.alive(); err != nil && ctx.Err() == nil {
				return err
			}
		}
		d.line(ctx)
		if len(steps) > 0 && time.Now().After(next) {
			if err := steps[0](); err != nil {
				return err
			}
			steps, next = steps[1:], time.Now().Add(demoMoveAfter)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// demoRange is a range of hashes that goes to a shard.
type demoRange struct {
	min, max bson.Value
	to       *demoProcess
}

// parts are a third of what each of two shards has: the lowest hashes of all, and the
// highest.
func (d *demoCluster) parts(to *demoProcess) []demoRange {
	const third = 6148914691236517204 // of 2^63
	return []demoRange{{bson.MinKey, bson.Int64(-third), to}, {bson.Int64(third), bson.MaxKey, to}}
}

// move moves a range, and says how long that took.
func (d *demoCluster) move(ctx context.Context, r demoRange) error {
	began := time.Now()
	b := new(bson.Builder).String("moveRange", demoDB+"."+demoCollection).String("toShard", r.to.name)
	err := d.admin(ctx, b.OpenDoc("min").Value("_id", r.min).Close().OpenDoc("max").Value("_id", r.max).Close())
	if err == nil {
		demoLine("the hashes from %s to %s have moved to %s in %.1f s", r.min, r.max, r.to.name, time.Since(began).Seconds())
	}
	return err
}

// line prints how many sessions live, and how many of them on each shard.
func (d *demoCluster) line(ctx context.Context) {
	count := new(bson.Builder).String("count", demoCollection).Doc("query", bson.Empty).Finish()
	var on []string
	for _, s := range d.shards {
		reply, err := s.ask(ctx, demoDB, count)
		if err != nil {
			return
		}
		on = append(on, fmt.Sprintf("%s %5d", s.name, bson.ClampToInt64(reply.Lookup("n"))))
	}
	reply, err := d.router.ask(ctx, demoDB, count)
	if err != nil {
		return
	}
	live := bson.ClampToInt64(reply.Lookup("n"))
	demoLine("%5d live, %5d gone; %s", live, demoClusterSessions-live, strings.Join(on, ", "))
}
