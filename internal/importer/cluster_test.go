package importer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// startCluster starts a cluster of two shards, and returns its router.
func startCluster(t *testing.T) *peer {
	t.Helper()
	member := func(name, role string) string {
		port := servertest.FreePort(t)
		return servertest.Start(t, role, "--port", fmt.Sprint(port), "--replSet", name, "--initiate", "--advertise", fmt.Sprintf("127.0.0.1:%d", port)).Address
	}
	router := connectPeer(t, servertest.StartRouter(t, "--configdb", "cfg/"+member("cfg", "--configsvr")).Address)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, name := range []string{"s0", "s1"} {
		command := bson.MustParse(fmt.Sprintf(`{"addShard":"%s/%s","name":"%s"}`, name, member(name, "--shardsvr"), name))
		for { // until there is a primary
			_, err := router.c.Run(ctx, "admin", command)
			if err == nil {
				break
			}
			if client.Sleep(ctx, 20*time.Millisecond) != nil {
				t.Fatal(err)
			}
		}
	}
	return router
}

// TestCluster imports a cluster by its router while it is written to, and chunks move.
func TestCluster(t *testing.T) {
	from, to := startCluster(t), startSet(t, "to")
	from.run("admin", `{"shardCollection":"w.a","key":{"_id":"hashed"}}`)
	from.run("admin", `{"shardCollection":"w.keyed","key":{"k":1}}`)
	from.run("admin", `{"split":"w.keyed","middle":{"k":100}}`)
	for i := range 200 {
		from.run("w", fmt.Sprintf(`{"insert":"keyed","documents":[{"_id":%d,"k":%d}]}`, i, i))
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	told := &lines{}
	o := Options{From: from.uri(), To: to.uri(), Parallel: 2, batch: 10, Tell: told.tell}
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), o) }()
	waitFor(t, to, "w", `{"count":"keyed","query":{}}`)
	disturbing, end := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for j := range 2 {
		writers.Go(func() { from.disturb(disturbing, rand.New(rand.NewPCG(seed, uint64(j)))) })
	}
	for _, shard := range []string{"s0", "s1"} {
		from.run("admin", fmt.Sprintf(`{"moveRange":"w.keyed","min":{"k":100},"max":{"k":{"$maxKey":1}},"toShard":"%s"}`, shard))
	}
	if err := AskCutOver(t.Context(), Options{To: to.uri(), Block: true}); err != nil {
		t.Fatal(err)
	}
	err := <-done
	end()
	writers.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, told)
	}
	equal(t, from, to)
	if !strings.Contains(told.String(), "w.keyed: 200 documents") {
		t.Error(told)
	}
}
