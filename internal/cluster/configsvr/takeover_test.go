package configsvr

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestTakeoverAtEachRequest has the config primary deposed at each request of each
// operation, before the shard has done it or after, and holds that the next primary
// ends it: done or undone, never in between.
func TestTakeoverAtEachRequest(t *testing.T) {
	for _, command := range []string{
		`{_configsvrMoveChunk: "app.events", find: {x: 7}, to: "s1"}`,
		`{_configsvrSplit: "app.events", middle: {x: 20}}`,
		`{_configsvrShardCollection: "app.more", key: {x: "hashed"}}`,
		`{_configsvrRenameCollection: "app.events", to: "app.renamed"}`,
		`{_configsvrRefineCollectionShardKey: "app.events", key: {x: 1, y: 1}}`,
		`{_configsvrDrop: "app.events"}`,
		`{_configsvrDropDatabase: "app"}`,
		`{_configsvrMovePrimary: "app", to: "s1"}`,
		`{_configsvrMoveCollection: "app.plain", toShard: "s1"}`,
		`{_configsvrUntrackUnshardedCollection: "app.tracked"}`,
		`{_configsvrUnshardCollection: "app.events", toShard: "s1"}`,
		`{_configsvrReshardCollection: "app.events", key: {x: "hashed"}}`,
		`{_configsvrCreateDatabase: "other"}`,
		`{_configsvrCreateIndexes: "app.events", command: {createIndexes: "events", indexes: [{key: {y: 1}, name: "y_1"}]}}`,
	} {
		name, _ := bson.MustParse(command).First()
		t.Run(name, func(t *testing.T) {
			for after := range 2 {
				for n := 1; ; n++ {
					if !takeoverAt(t, command, n, after == 1) {
						t.Logf("%d requests", n-1)
						break
					}
				}
			}
		})
	}
}

// takeoverAt has the primary deposed at the n-th request to a shard; false where there
// are fewer.
func takeoverAt(t *testing.T, command string, n int, after bool) bool {
	t.Helper()
	c := start(t)
	defer c.end()
	c.add("s0")
	c.add("s1")
	for _, text := range []string{
		`{_configsvrAddShard: "s0/s0:27018"}`, `{_configsvrAddShard: "s1/s1:27018"}`, `{_configsvrShardCollection: "app.events", key: {x: 1}}`,
		`{_configsvrSplit: "app.events", middle: {x: 50}}`,
	} {
		if _, err := c.run(bson.MustParse(text)); err != nil {
			t.Fatal(text, err)
		}
	}
	c.fill("s0", "app.events", 0, 100)
	c.fill("s0", "app.plain", 0, 100)
	if strings.Contains(command, "app.tracked") {
		c.fill("s0", "app.tracked", 0, 100)
		for _, to := range []string{"s1", "s0"} {
			if _, err := c.run(bson.MustParse(`{_configsvrMoveCollection: "app.tracked", toShard: "` + to + `"}`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	seen, hit := 0, false
	c.mu.Lock()
	c.onAsk = func(body bson.Doc, done bool) bool {
		if name, _ := body.First(); !strings.HasPrefix(name, "_shardsvr") || done != after || hit {
			return false
		}
		if seen++; seen < n {
			return false
		}
		hit = true
		term := c.primary.Term()
		c.primary.set(0)
		c.primary.set(term + 1)
		return true
	}
	c.mu.Unlock()
	_, err := c.run(bson.MustParse(command))
	if err != nil && !mongoerr.Is(err, mongoerr.PrimarySteppedDown) && !mongoerr.Is(err, mongoerr.NotWritablePrimary) && !mongoerr.Is(err, mongoerr.HostUnreachable) {
		t.Fatalf("request %d, after %v: %v", n, after, err)
	}
	if !hit {
		return false
	}
	c.await(t)
	c.settle(t)
	if err := c.consistent(); err != nil {
		t.Fatalf("%s deposed at request %d, after %v: %v", command, n, after, err)
	}
	return true
}

// settle waits until no operation is under way.
func (c *cluster) settle(t *testing.T) {
	t.Helper()
	for range 5000 {
		docs, err := c.s.all(operations)
		if err != nil {
			t.Fatal(err)
		}
		if len(docs) == 1 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("an operation does not end")
}

// consistent checks that shards know what config.* says, and that each document is
// shown once.
func (c *cluster) consistent() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	all, err := c.s.allTracked()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range all {
		m, err := c.s.chunkMap(&all[i])
		if err != nil {
			return err
		}
		known[all[i].Namespace] = true
		shown := 0
		for id, set := range c.sets {
			coll := set.shard.Collections[all[i].Namespace]
			if coll == nil {
				if m.ChunksOn(id) > 0 {
					return fmt.Errorf("%s has not %s", id, all[i].Namespace)
				}
				continue
			}
			want := m.ShardVersion(id)
			if coll.Version.Lastmod() != want.Lastmod() || want.Major > 0 && coll.Version != want || coll.Blocked != nil {
				return fmt.Errorf("%s is at %s in %s and should be at %s, blocked %v", id, coll.Version, all[i].Namespace, want, coll.Blocked)
			}
			docs, err := set.shard.Read(all[i].Namespace, coll.Version)
			if err != nil {
				return err
			}
			shown += len(docs)
			for _, h := range coll.Hidden {
				if !h.Given {
					return fmt.Errorf("%s receives for ever", id)
				}
			}
		}
		if all[i].Namespace != "app.more" && shown != 100 {
			return fmt.Errorf("%d documents are shown", shown)
		}
	}
	for id, set := range c.sets {
		for ns, coll := range set.shard.Collections {
			if coll.Sharded && !known[ns] {
				return fmt.Errorf("%s has %s, which is none", id, ns)
			}
		}
		for name, db := range set.shard.Databases {
			d, err := c.s.database(name)
			if err != nil || d.Name == "" || db.Primary != (d.Primary == id) || db.Blocked {
				return fmt.Errorf("%s takes %s for %v, and it is %v", id, name, db, d)
			}
		}
	}
	return c.chunksKnown(all)
}

// chunksKnown checks that config.chunks has no chunks of collections that are none.
func (c *cluster) chunksKnown(all []collectionDoc) error {
	known := map[bson.UUID]bool{}
	for i := range all {
		known[all[i].UUID] = true
	}
	return c.s.each(chunks, func(d bson.Doc) error {
		var id bson.UUID
		_, content := d.Lookup("uuid").Binary()
		copy(id[:], content)
		if !known[id] {
			return fmt.Errorf("a chunk of nothing: %s", d)
		}
		return nil
	})
}

// TestDDLUndoesAMove has a drop come while a move waits for its recipient.
func TestDDLUndoesAMove(t *testing.T) {
	c := start(t)
	defer c.end()
	c.add("s0")
	c.add("s1")
	for _, text := range []string{`{_configsvrAddShard: "s0/s0:27018"}`, `{_configsvrAddShard: "s1/s1:27018"}`, `{_configsvrShardCollection: "app.events", key: {x: 1}}`} {
		if _, err := c.run(bson.MustParse(text)); err != nil {
			t.Fatal(err)
		}
	}
	c.fill("s0", "app.events", 0, 100)
	waits := make(chan struct{})
	told := false
	c.mu.Lock()
	c.onAsk = func(body bson.Doc, done bool) bool {
		name, _ := body.First()
		if name != "_shardsvrReceived" || done {
			return false
		}
		if !told {
			told = true
			close(waits)
		}
		return true // no answer: it does not come to an end
	}
	c.mu.Unlock()
	moved := make(chan error, 1)
	go func() {
		_, err := c.run(bson.MustParse(`{_configsvrMoveChunk: "app.events", find: {x: 7}, to: "s1"}`))
		moved <- err
	}()
	<-waits
	if _, err := c.run(bson.MustParse(`{_configsvrDrop: "app.events"}`)); err != nil {
		t.Fatal(err)
	}
	if err := <-moved; !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
		t.Fatal("the move was not undone: ", err)
	}
	if err := c.consistent(); err != nil {
		t.Fatal(err)
	}
}

// TestClaims holds which operations may run side by side.
func TestClaims(t *testing.T) {
	move := func(ns, from, to string) claim { return claim{within: ns, shards: []string{from, to}} }
	alone := func(names ...string) claim { return claim{alone: names} }
	for _, x := range []struct {
		a, b     claim
		together bool
	}{
		{move("a.b", "s0", "s1"), move("a.b", "s2", "s3"), true},
		{move("a.b", "s0", "s1"), move("a.c", "s1", "s2"), false},
		{move("a.b", "s0", "s1"), alone("a.b"), false},
		{move("a.b", "s0", "s1"), alone("a"), false},
		{move("a.b", "s0", "s1"), alone("a.c"), true},
		{move("a.b", "s0", "s1"), alone("shard s1"), false},
		{move("a.b", "s0", "s1"), alone("shard s2"), true},
		{alone("a"), alone("a.b"), false},
		{alone("a.b"), alone("a"), false},
		{alone("a"), alone("ab.c"), true},
		{alone("a.b"), alone("a.b.c"), true},
		{alone("a.b", "a.c"), alone("a.c"), false},
	} {
		for _, order := range [][2]claim{{x.a, x.b}, {x.b, x.a}} {
			var c claims
			c.init()
			c.take(order[0], 1)
			if got := len(c.conflictsLocked(order[1])) == 0; got != x.together {
				t.Errorf("%v together with %v: %v", order[0], order[1], got)
			}
		}
	}
	if claimOf(&step.Operation{Kind: step.KindDrop, Namespace: "a.b"}).alone[0] != "a.b" {
		t.Error("a drop claims its namespace")
	}
}

// TestClaimWaits holds how long an operation waits for another one: as long as a DDL
// waits for locks, and that it says which one is in the way meanwhile.
func TestClaimWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c claims
		c.init()
		c.take(claim{alone: []string{"a.b"}}, 1)
		var told []int64
		began := time.Now()
		err := c.wait(t.Context(), claim{alone: []string{"a"}}, 2, func(n int64) { told = append(told, n) })
		if !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) || time.Since(began) != claimWait || len(told) != 1 || told[0] != 1 {
			t.Errorf("%v after %v, told of %v", err, time.Since(began), told)
		}
		go func() {
			time.Sleep(time.Second)
			c.free(1)
		}()
		if err := c.wait(t.Context(), claim{alone: []string{"a"}}, 2, func(int64) {}); err != nil || len(c.alone) != 1 {
			t.Errorf("%v, %v", err, c.alone)
		}
	})
}

// TestDecidedInEarlierTerm: what was decided by the metadata of a term is not written in a later
// one of the same process: others may have changed them in between.
func TestDecidedInEarlierTerm(t *testing.T) {
	c := start(t)
	defer c.end()
	doc := put(versions, bson.MustParse(`{_id: 7}`))
	err := c.s.change(t.Context(), func() ([]write, error) {
		return []write{doc}, c.s.Catalog.StepUp(t.Context())
	})
	if !mongoerr.Is(err, mongoerr.PrimarySteppedDown) {
		t.Errorf("it is written: %v", err)
	}
	c.await(t)
	if err := c.s.change(t.Context(), func() ([]write, error) { return []write{doc}, nil }); err != nil {
		t.Error(err)
	}
}
