package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// deadTime is how long a member is dead: another one takes over meanwhile.
const deadTime = 3 * time.Second

// killSetsFor is how long primaries are killed: each set's at least twice.
func killSetsFor() time.Duration {
	if *long {
		return time.Minute
	}
	return 25 * time.Second
}

// startOfThree runs a cluster whose config servers and shards are sets of three, and returns
// the members of each set.
func startOfThree(t *testing.T, shards, routers int) (*cluster, [][]*testkit.Server) {
	t.Helper()
	config := startThree(t, "cfg", "--configsvr")
	c, sets := &cluster{config: config[0]}, [][]*testkit.Server{config}
	for range routers {
		c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", config...)))
	}
	for i := range shards {
		name := fmt.Sprintf("s%d", i)
		members := startThree(t, name, "--shardsvr")
		c.shards, sets = append(c.shards, members[0]), append(sets, members)
		c.admin(t, bson.D{{Key: "addShard", Value: host(name, members...)}, {Key: "name", Value: name}})
	}
	return c, sets
}

// startThree runs a replica set of three, and waits until it has a primary.
func startThree(t *testing.T, name, role string) []*testkit.Server {
	t.Helper()
	var members []*testkit.Server
	var list bson.A
	for i := range 3 {
		s := testkit.Start(t, role, "--replSet", name, "--setParameter", expiresSoon)
		members = append(members, s)
		list = append(list, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: fmt.Sprintf("localhost:%d", s.Port)}})
	}
	run(t, members[0].Direct().Database("admin"), bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: name}, {Key: "members", Value: list}}}})
	until(t, name+" has a primary", func() error {
		if primary(t, members) == nil {
			return fmt.Errorf("none")
		}
		return nil
	})
	return members
}

// primary is the member that says it is; nil for none.
func primary(t *testing.T, members []*testkit.Server) *testkit.Server {
	for _, m := range members {
		var hello struct{ IsWritablePrimary bool }
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		err := m.Direct().Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
		stop()
		if err == nil && hello.IsWritablePrimary {
			return m
		}
	}
	return nil
}

// killPrimaries kills the primaries of sets, one set after the other, until ctx ends. Each
// starts again when another member has taken over, and the next one is killed after a rest. It
// returns how many were killed.
func killPrimaries(t *testing.T, ctx context.Context, sets [][]*testkit.Server, rest time.Duration) (kills int) {
	for i := 0; ctx.Err() == nil; i++ {
		victim := primary(t, sets[i%len(sets)])
		if victim == nil {
			time.Sleep(deadTime / 10)
			continue
		}
		victim.Kill()
		kills++
		time.Sleep(deadTime)
		victim.Run()
		time.Sleep(rest)
	}
	return kills
}

// TestKillPrimaries is TestKilledUnderLoad on sets of three, whose primaries are killed, one
// set after the other, and start again when another member has taken over.
func TestKillPrimaries(t *testing.T) {
	c, sets := startOfThree(t, 2, 2)
	ctx, stop := context.WithTimeout(t.Context(), killSetsFor())
	defer stop()
	n, l, moves := c.load(t, ctx)
	node := c.mongoose(t)
	kills := killPrimaries(t, ctx, sets, 0)
	c.judge(t, n, l, kills, moves)
	node.check(t)
	if kills < 2*len(sets) {
		t.Errorf("%d primaries were killed", kills)
	}
}
