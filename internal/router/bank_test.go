package router_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

const (
	bankAccounts = 3 * bankPerShard
	bankPerShard = 40
	bankBalance  = 100
)

// newBank makes a cluster of three shards with accounts on each: {_id, n}, and the sum of all n
// stays what it is.
func newBank(t *testing.T) *realCluster {
	c := newCluster(t, 3)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {_id: 1}}`)
	for i := 1; i < 3; i++ {
		c.do("admin", fmt.Sprintf(`{split: "app.c", middle: {_id: %d}}`, i*bankPerShard))
		c.do("admin", fmt.Sprintf(`{moveChunk: "app.c", find: {_id: %d}, to: "s%d"}`, i*bankPerShard, i))
	}
	for id := range bankAccounts {
		c.do("app", fmt.Sprintf(`{insert: "c", documents: [{_id: %d, n: %d}]}`, id, bankBalance))
	}
	return c
}

// transfers moves an amount so many times between accounts of different shards, in transactions
// of its own session: account i of each shard. Nobody else writes to these.
func (c *realCluster) transfers(i, times int) error {
	conn := c.connect(c.address)
	session := bson.NewUUID()
	run := func(number, statement int, text string) (bson.Doc, error) {
		b := new(bson.Builder).Fields(bson.MustParse(text)).OpenDoc("lsid").Binary("id", 4, session[:]).Close().Int64("txnNumber", int64(number)).Bool("autocommit", false)
		if statement == 0 {
			b.Bool("startTransaction", true).OpenDoc("readConcern").String("level", "snapshot").Close()
		}
		db := "app"
		if statement < 0 {
			db = "admin"
		}
		return conn.Run(c.t.Context(), db, b.Finish())
	}
	for n := range times {
		from, to := i+n%3*bankPerShard, i+(n+1)%3*bankPerShard
		sum, err := run(n, 0, `{aggregate: "c", pipeline: [{$group: {_id: null, n: {$sum: "$n"}}}], cursor: {}}`)
		if err != nil {
			return fmt.Errorf("transfer %d: %w", n, err)
		}
		if got := batch(sum); got != fmt.Sprintf("[ { _id: null, n: %d } ]", bankAccounts*bankBalance) {
			return fmt.Errorf("a transaction sees %s", got)
		}
		for k, text := range []string{
			fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$inc: {n: -1}}}]}`, from),
			fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$inc: {n: 1}}}]}`, to),
		} {
			reply, err := run(n, k+1, text)
			if err != nil || reply.Has("writeErrors") || bson.ClampToInt64(reply.Lookup("nModified")) != 1 {
				return fmt.Errorf("%s: %v %s", text, err, reply)
			}
		}
		if _, err := run(n, -1, `{commitTransaction: 1, writeConcern: {w: "majority"}}`); err != nil {
			return fmt.Errorf("commit %d: %w", n, err)
		}
	}
	return nil
}

// TestSnapshotsOfBusyShards: reads with the level snapshot, and transactions that read all and
// write to two shards, succeed at the first attempt, however busy the three shards are, and
// each sees the sum that is always there.
func TestSnapshotsOfBusyShards(t *testing.T) {
	c := newBank(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var busy sync.WaitGroup
	defer busy.Wait()
	defer stop()
	for shard := range 3 { // what each shard has to do without transactions
		conn := c.connect(c.address)
		busy.Go(func() {
			for ctx.Err() == nil {
				text := fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$inc: {other: 1}}}]}`, shard*bankPerShard+bankPerShard-1)
				if _, err := conn.Run(context.WithoutCancel(ctx), "app", bson.MustParse(text)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var transacting sync.WaitGroup
	for i := range 8 {
		transacting.Go(func() {
			if err := c.transfers(i, 13); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	conn := c.connect(c.address)
	transacting.Go(func() {
		for n := range 100 {
			reply, err := conn.Run(t.Context(), "app", bson.MustParse(`{aggregate: "c", pipeline: [{$group: {_id: null, n: {$sum: "$n"}}}], cursor: {}, readConcern: {level: "snapshot"}}`))
			if err != nil {
				t.Errorf("read %d: %v", n, err)
				return
			}
			if got := batch(reply); got != fmt.Sprintf("[ { _id: null, n: %d } ]", bankAccounts*bankBalance) {
				t.Errorf("read %d sees %s", n, got)
				return
			}
		}
	})
	transacting.Wait()
}

// TestSnapshotOfLongAgo: a time that was handed out by one shard, or is that of a write, is read on
// all shards later, however much was written since.
func TestSnapshotOfLongAgo(t *testing.T) {
	c := newBank(t)
	sum := `{aggregate: "c", pipeline: [{$group: {_id: null, n: {$sum: "$n"}}}], cursor: {}, readConcern: {level: "snapshot"%s}}`
	c.do("app", fmt.Sprintf(sum, "")) // from now on each shard has a state of before
	type write struct {
		at   uint64
		sums int
	}
	var writes []write
	for n := range 300 {
		id := n % 3 * bankPerShard
		reply := c.do("app", fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$inc: {n: 1}}}]}`, id))
		writes = append(writes, write{reply.Lookup("operationTime").Timestamp(), bankAccounts*bankBalance + n + 1})
		if n%10 == 9 {
			c.do("app", fmt.Sprintf(`{delete: "c", deletes: [{q: {_id: %d}, limit: 1}]}`, bankPerShard+1+n/10))
			c.do("app", fmt.Sprintf(`{insert: "c", documents: [{_id: %d, n: %d}]}`, bankPerShard+1+n/10, bankBalance))
		}
	}
	for n, w := range writes {
		reply := c.do("app", fmt.Sprintf(sum, fmt.Sprintf(", atClusterTime: Timestamp(%d, %d)", w.at>>32, uint32(w.at))))
		if got, want := batch(reply), fmt.Sprintf("[ { _id: null, n: %d } ]", w.sums); got != want {
			t.Errorf("at write %d: %s, want %s", n, got, want)
		}
	}
}

// TestSnapshotBeforeFirstRange: a shard that has got a collection, and its first range, after a
// time has nothing of that time, and says so: its documents were another one's then.
func TestSnapshotBeforeFirstRange(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {_id: 1}}`)
	c.do("app", `{insert: "c", documents: [{_id: 1}, {_id: 10}]}`)
	c.do("admin", `{split: "app.c", middle: {_id: 10}}`)
	at := c.do("app", `{find: "c", readConcern: {level: "snapshot"}}`).Lookup("cursor").Doc().Lookup("atClusterTime").Timestamp()
	c.do("admin", `{moveChunk: "app.c", find: {_id: 10}, to: "s1"}`)
	reply, err := c.try("app", fmt.Sprintf(`{find: "c", sort: {_id: 1}, readConcern: {level: "snapshot", atClusterTime: Timestamp(%d, %d)}}`, at>>32, uint32(at)))
	if err == nil {
		t.Errorf("at a time before the move: %s", batch(reply))
	}
	if got := batch(c.do("app", `{find: "c", sort: {_id: 1}, readConcern: {level: "snapshot"}}`)); got != "[ { _id: 1 }, { _id: 10 } ]" {
		t.Errorf("now: %s", got)
	}
}
