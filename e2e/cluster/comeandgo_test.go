package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// comeAndGoFor is how long shards come and go.
func comeAndGoFor() time.Duration {
	if *long {
		return 3 * time.Minute
	}
	return 40 * time.Second
}

// TestShardsComeAndGo is TestKillPrimaries while two more shards, sets of one, are drained, leave
// and come back, one after the other: the balancer takes from them what the test's moves bring.
func TestShardsComeAndGo(t *testing.T) {
	c, sets := startOfThree(t, 2, 2)
	c.admin(t, bson.D{{Key: "enableSharding", Value: "app"}, {Key: "primaryShard", Value: "s0"}})
	for i := range 2 {
		c.addShard(t, 2+i)
	}
	ctx, stop := context.WithTimeout(t.Context(), comeAndGoFor())
	defer stop()
	n, l, moves := c.load(t, ctx)
	node := c.mongoose(t)
	c.admin(t, bson.D{{Key: "balancerStart", Value: 1}})
	left := 0
	n.clients.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if c.comesAndGoes(t, ctx, 2+i%2, i%4 < 2) {
				left++
			}
		}
	})
	kills := killPrimaries(t, ctx, sets, deadTime)
	c.judge(t, n, l, kills, moves)
	node.check(t)
	if kills < len(sets) || left < 2 {
		t.Errorf("%d primaries were killed, shards left %d times", kills, left)
	}
	t.Logf("shards left %d times", left)
}

// comesAndGoes drains a shard, by one command or one for each step, has it leave, and adds it
// again. It reports whether it left; a shard that is not drained when ctx ends stays. What
// fails, since who has to do it is dead, is asked again.
func (c *cluster) comesAndGoes(t *testing.T, ctx context.Context, i int, steps bool) bool {
	name := fmt.Sprintf("s%d", i)
	admin := c.routers[1].Client().Database("admin")
	ask := func(command ...bson.E) (reply struct{ State string }) {
		if err := admin.RunCommand(t.Context(), bson.D(command)).Decode(&reply); err != nil {
			t.Logf("%v: %v", command, err)
		}
		return reply
	}
	there := func() (bool, error) {
		k, err := c.routers[0].Client().Database("config").Collection("shards").CountDocuments(t.Context(), bson.D{{Key: "_id", Value: name}})
		return k > 0, err
	}
	for { // until it is gone
		if is, err := there(); err == nil && !is {
			break
		}
		if ctx.Err() != nil {
			ask(bson.E{Key: "stopShardDraining", Value: name})
			return false
		}
		if steps {
			ask(bson.E{Key: "startShardDraining", Value: name})
			if ask(bson.E{Key: "shardDrainingStatus", Value: name}).State == "drainingComplete" {
				ask(bson.E{Key: "commitShardRemoval", Value: name})
			}
		} else {
			ask(bson.E{Key: "removeShard", Value: name})
		}
		time.Sleep(100 * time.Millisecond)
	}
	until(t, name+" is back", func() error {
		if is, err := there(); err == nil && is {
			return nil
		}
		return admin.RunCommand(t.Context(), bson.D{{Key: "addShard", Value: host(name, c.shards[i])}, {Key: "name", Value: name}}).Err()
	})
	return true
}
