package importer

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

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
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

// moveDocuments moves documents of w.keyed to another shard, by a transaction that inserts there
// before it deletes: the shard of the first write commits first.
func (p *peer) moveDocuments(n int) {
	p.t.Helper()
	id := bson.NewUUID()
	number := int64(0)
	run := func(db, command string, more bool) error {
		b := new(bson.Builder).Fields(bson.MustParse(command)).OpenDoc("lsid").Binary("id", 4, id[:]).Close().Int64("txnNumber", number).Bool("autocommit", false)
		if !more {
			b.Bool("startTransaction", true)
		}
		reply, err := p.c.Run(p.t.Context(), db, b.Finish())
		for _, e := range writeErrors(reply) {
			err = errors.Join(err, e.Error)
		}
		return err
	}
	for i := 0; i < n; {
		number++
		err := run("w", fmt.Sprintf(`{"insert":"keyed","documents":[{"_id":%d,"k":%d}]}`, i, 1000+i), false)
		if err == nil {
			err = run("w", fmt.Sprintf(`{"delete":"keyed","deletes":[{"q":{"_id":%d,"k":%d},"limit":1}]}`, i, i), true)
		}
		if err == nil {
			err = run("admin", `{"commitTransaction":1}`, true)
		}
		var refused *mongoerr.Error
		switch {
		case err == nil:
			i++
		case !errors.As(err, &refused) || !slices.Contains(refused.Labels, "TransientTransactionError"):
			p.t.Fatal(err)
		}
	}
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
	from.moveDocuments(20)
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
