package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// told is a document of app.s: what was done to it, as its events say it.
type told struct {
	done    []string
	expires bool
	// unknown is what was tried last, whose outcome the client was not told; "" for nothing.
	unknown string
}

// history is all that was done.
type history struct {
	mu      sync.Mutex
	all     map[string]*told
	clients sync.WaitGroup
}

// write makes documents, changes them, and removes them or lets them expire, until ctx ends.
func (h *history) write(t *testing.T, ctx context.Context, coll *mongo.Collection, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		id, d := fmt.Sprintf("%s.%d", name, n), &told{expires: n%3 == 0}
		h.mu.Lock()
		h.all[id] = d
		h.mu.Unlock()
		did := func(what string, err error) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			if err != nil {
				d.unknown = what
				return false
			}
			d.done = append(d.done, what)
			return true
		}
		doc := bson.D{{Key: "_id", Value: id}, {Key: "k", Value: n}, {Key: "v", Value: 0}}
		if d.expires {
			doc = append(doc, bson.E{Key: "at", Value: time.Now().Add(time.Hour)})
		}
		_, err := coll.InsertOne(t.Context(), doc)
		key := bson.D{{Key: "_id", Value: id}, {Key: "k", Value: n}}
		for v := 1; did([]string{"insert", "1", "2", "3"}[v-1], err) && v <= 3; v++ {
			change := bson.D{{Key: "v", Value: v}}
			if v == 3 && d.expires {
				change = append(change, bson.E{Key: "at", Value: time.Now()})
			}
			_, err = coll.UpdateOne(t.Context(), key, bson.D{{Key: "$set", Value: change}})
		}
		if err == nil && n%3 == 1 {
			_, err = coll.DeleteOne(t.Context(), key)
			did("delete", err)
		}
	}
}

// follower reads the stream of app.s, again and again from where it was, through one router or
// another.
type follower struct {
	routers []*mongo.Client
	mu      sync.Mutex
	seen    map[string][]string // by document
	tokens  map[string][]string // of what was seen
	opened  int
	failed  error
}

type streamed struct {
	ID                bson.Raw `bson:"_id"`
	OperationType     string
	DocumentKey       bson.D
	UpdateDescription struct{ UpdatedFields struct{ V int32 } }
	Expired           bson.Raw
}

func (f *follower) follow(ctx context.Context) {
	var token bson.Raw
	for ctx.Err() == nil {
		if err := f.read(ctx, &token); err != nil && ctx.Err() == nil {
			f.mu.Lock()
			f.failed = err
			f.mu.Unlock()
			return
		}
	}
}

// read reads for a moment.
func (f *follower) read(ctx context.Context, token *bson.Raw) error {
	o := options.ChangeStream().SetMaxAwaitTime(100 * time.Millisecond)
	if *token != nil {
		o.SetStartAfter(*token)
	}
	coll := f.routers[rand.IntN(len(f.routers))].Database("app").Collection("s")
	cs, err := coll.Watch(ctx, mongo.Pipeline{}, o)
	if err != nil {
		return err
	}
	defer cs.Close(context.Background())
	f.mu.Lock()
	f.opened++
	f.mu.Unlock()
	until := time.Now().Add(time.Duration(rand.IntN(1000)) * time.Millisecond)
	for ctx.Err() == nil && time.Now().Before(until) {
		if !cs.TryNext(ctx) {
			if cs.Err() != nil {
				return cs.Err()
			}
			*token = cs.ResumeToken()
			continue
		}
		var c streamed
		if err := cs.Decode(&c); err != nil {
			return err
		}
		*token = slices.Clone(c.ID)
		if len(c.DocumentKey) != 2 || c.DocumentKey[0].Key != "k" {
			return fmt.Errorf("the document key is %v", c.DocumentKey)
		}
		what := c.OperationType
		switch {
		case what == "update":
			what = fmt.Sprint(c.UpdateDescription.UpdatedFields.V)
		case c.Expired != nil:
			what = "expired"
		}
		id := c.DocumentKey[1].Value.(string)
		f.mu.Lock()
		f.seen[id], f.tokens[id] = append(f.seen[id], what), append(f.tokens[id], c.ID.String())
		f.mu.Unlock()
	}
	return nil
}

// judge compares what a follower has seen with what was done.
func (h *history) judge(f *follower) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return f.failed
	}
	var bad []string
	for id, d := range h.all {
		seen, want := f.seen[id], d.done
		if d.expires && len(want) == 4 {
			want = append(slices.Clone(want), "expired")
		}
		also := append(slices.Clone(d.done), d.unknown)
		if slices.Equal(seen, want) || d.unknown != "" && (slices.Equal(seen, also) || slices.Equal(seen, append(also, "expired"))) {
			continue
		}
		bad = append(bad, fmt.Sprintf("%s: %v, not %v (%s), by the tokens %v", id, seen, want, d.unknown, f.tokens[id]))
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d documents of %d: %s", len(bad), len(h.all), strings.Join(bad[:min(len(bad), 10)], "; "))
	}
	return nil
}

// TestStreamsUnderLoad: while clients write, documents expire, chunks move, a shard comes and
// goes again, and a primary is killed, followers that are cut off all the time and go on
// through another router are told of each acknowledged change once, and of the changes of each
// document in their order.
func TestStreamsUnderLoad(t *testing.T) {
	c := &cluster{config: testkit.Start(t, "--configsvr", "--replSet", "cfg", "--initiate")}
	for range 2 {
		c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", c.config)))
	}
	members := startThree(t, "s0", "--shardsvr")
	c.shards = members[:1]
	c.admin(t, bson.D{{Key: "addShard", Value: host("s0", members...)}, {Key: "name", Value: "s0"}})
	c.admin(t, bson.D{{Key: "enableSharding", Value: "app"}, {Key: "primaryShard", Value: "s0"}})
	c.shards = slices.Clone(c.shards)
	c.addShard(t, 1)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.s"}, {Key: "key", Value: bson.D{{Key: "k", Value: "hashed"}}}})
	coll := c.routers[0].Client().Database("app").Collection("s")
	if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)}); err != nil {
		t.Fatal(err)
	}

	watching, end := context.WithCancel(t.Context())
	var followers []*follower
	var readers sync.WaitGroup
	defer readers.Wait()
	defer end()
	for range 2 {
		f := &follower{routers: []*mongo.Client{c.routers[0].Client(), c.routers[1].Client()}, seen: map[string][]string{}, tokens: map[string][]string{}}
		followers = append(followers, f)
		readers.Go(func() { f.follow(watching) })
	}
	until(t, "the followers watch", func() error {
		for _, f := range followers {
			f.mu.Lock()
			n := f.opened
			f.mu.Unlock()
			if n == 0 {
				return errors.New("not all")
			}
		}
		return nil
	})
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	h := &history{all: map[string]*told{}}
	for i := range 4 {
		h.clients.Go(func() {
			h.write(t, writing, c.routers[i%2].Client().Database("app").Collection("s"), fmt.Sprint(i))
		})
	}
	moves := c.moveAround(t, 3*time.Second)
	c.addShard(t, 2)
	moves += c.moveAround(t, 3*time.Second)
	victim := primary(t, members)
	victim.Kill()
	moves += c.moveAround(t, 3*time.Second)
	victim.Run()
	c.admin(t, bson.D{{Key: "balancerStart", Value: 1}})
	until(t, "the shard is drained", func() error {
		var reply struct{ State string }
		if err := c.routers[0].Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "removeShard", Value: "s2"}}).Decode(&reply); err != nil || reply.State != "completed" {
			return fmt.Errorf("%+v %v", reply, err)
		}
		return nil
	})
	time.Sleep(time.Second) // the followers hear of it
	c.shards[2].Kill()
	time.Sleep(time.Second) // something is written without it
	stop()
	h.clients.Wait()
	until(t, "the followers have seen all", func() error { return errors.Join(h.judge(followers[0]), h.judge(followers[1])) })
	end()
	readers.Wait()
	for _, f := range followers {
		if err := h.judge(f); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d documents, %d moves, streams opened %d and %d times", len(h.all), moves, followers[0].opened, followers[1].opened)
	if len(h.all) < 100 || moves < 2 || followers[0].opened < 5 {
		t.Error("that is too little")
	}
}

// moveAround moves chunks for a while, and returns how many.
func (c *cluster) moveAround(t *testing.T, how time.Duration) (moves int) {
	for began := time.Now(); time.Since(began) < how; {
		chunks := c.chunksOf(t, "app.s")
		if len(chunks) > 0 && c.move(t, c.routers[0].Client(), "app.s", chunks[rand.IntN(len(chunks))]) {
			moves++
		}
	}
	return moves
}
