package configsvr

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
)

// takeovers are the operations during which primaries are deposed. before prepares the cluster; run
// is the operation, or perform, which may need several, and goes on until it has done what it says.
var takeovers = []struct {
	name    string
	before  []string
	run     string
	perform func(*cluster, *testing.T)
}{
	{name: "move", run: `{_configsvrMoveChunk: "app.events", find: {x: 7}, to: "s1"}`},
	{name: "split", run: `{_configsvrSplit: "app.events", middle: {x: 20}}`},
	{name: "shardCollection", run: `{_configsvrShardCollection: "app.more", key: {x: "hashed"}}`},
	{name: "rename", run: `{_configsvrRenameCollection: "app.events", to: "app.renamed"}`},
	{name: "refine", run: `{_configsvrRefineCollectionShardKey: "app.events", key: {x: 1, y: 1}}`},
	{name: "drop", run: `{_configsvrDrop: "app.events"}`},
	{name: "dropDatabase", run: `{_configsvrDropDatabase: "app"}`},
	{name: "movePrimary", run: `{_configsvrMovePrimary: "app", to: "s1"}`},
	{name: "moveCollection", run: `{_configsvrMoveCollection: "app.plain", toShard: "s1"}`},
	{name: "untrack", before: []string{`{_configsvrMoveCollection: "app.tracked", toShard: "s1"}`, `{_configsvrMoveCollection: "app.tracked", toShard: "s0"}`}, run: `{_configsvrUntrackUnshardedCollection: "app.tracked"}`},
	{name: "unshard", run: `{_configsvrUnshardCollection: "app.events", toShard: "s1"}`},
	{name: "reshard", run: `{_configsvrReshardCollection: "app.events", key: {x: "hashed"}}`},
	{name: "createDatabase", run: `{_configsvrCreateDatabase: "other"}`},
	{name: "createIndexes", before: onBoth, run: `{_configsvrCreateIndexes: "app.events", command: {createIndexes: "events", indexes: [{key: {y: 1}, name: "y_1"}]}}`},
	{name: "dropIndexes", before: append(onBoth, `{_configsvrCreateIndexes: "app.events", command: {createIndexes: "events", indexes: [{key: {y: 1}, name: "y_1"}]}}`),
		run: `{_configsvrDropIndexes: "app.events", command: {dropIndexes: "events", index: ["y_1"]}}`},
	{name: "collMod", before: onBoth, run: `{_configsvrCollMod: "app.events", command: {collMod: "events", validator: {y: 1}}}`},
	{name: "expiry rule", before: onBoth, run: `{_configsvrCollMod: "app.events", command: {collMod: "events", index: {name: "y_1", expireAfterSeconds: 7, expireVisibility: "immediate"}}}`},
	{name: "addShard", before: aSetting, run: `{_configsvrAddShard: "s2/s2:27018"}`},
	{name: "setClusterParameter", before: aSetting, run: `{_configsvrSetClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 200}}}}`},
	{name: "setUserWriteBlockMode", before: aSetting, run: `{_configsvrSetUserWriteBlockMode: 1, global: true}`},
	{name: "setUserWriteBlockMode off", before: append(aSetting, `{_configsvrSetUserWriteBlockMode: 1, global: true}`), run: `{_configsvrSetUserWriteBlockMode: 1, global: false}`},
	{name: "a drain", before: append(append(aSetting, onBoth...), `{_configsvrCreateDatabase: "other", primaryShard: "s1"}`), perform: (*cluster).drain},
}

var (
	onBoth   = []string{`{_configsvrMoveChunk: "app.events", find: {x: 70}, to: "s1"}`}
	aSetting = []string{`{_configsvrSetClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 100}}}}`}
)

// TestTakeoverAtEachRequest has the config primary deposed at each request of each
// operation, before the shard has done it or after, and holds that the next primary
// ends it: done or undone, never in between (invariants resumed, forward, again).
func TestTakeoverAtEachRequest(t *testing.T) {
	for i := range takeovers {
		t.Run(takeovers[i].name, func(t *testing.T) {
			for after := range 2 {
				n := 1
				for takeoverAt(t, i, n, after == 1) {
					n++
				}
				if n == 1 {
					t.Error("no shard is asked")
				}
				t.Logf("%d requests", n-1)
			}
		})
	}
}

// takeoverAt has the primary deposed at the n-th request to a shard; false where there
// are fewer.
func takeoverAt(t *testing.T, i, n int, after bool) bool {
	t.Helper()
	x := &takeovers[i]
	c := start(t)
	defer c.end()
	for _, id := range []string{"s0", "s1", "s2"} {
		c.add(id)
	}
	run := func(text string) {
		t.Helper()
		if _, err := c.run(bson.MustParse(text)); err != nil {
			t.Fatal(text, err)
		}
	}
	for _, text := range []string{
		`{_configsvrAddShard: "s0/s0:27018"}`, `{_configsvrAddShard: "s1/s1:27018"}`, `{_configsvrShardCollection: "app.events", key: {x: 1}}`,
		`{_configsvrSplit: "app.events", middle: {x: 50}}`,
	} {
		run(text)
	}
	c.fill("s0", "app.events", 0, 100)
	c.fill("s0", "app.plain", 0, 100)
	if x.name == "untrack" {
		c.fill("s0", "app.tracked", 0, 100)
	}
	for _, text := range x.before {
		run(text)
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
	if x.perform != nil {
		x.perform(c, t)
	} else if _, err := c.run(bson.MustParse(x.run)); err != nil && !failsOver(err) {
		t.Fatalf("request %d, after %v: %v", n, after, err)
	}
	if !hit {
		return false
	}
	c.await(t)
	c.settle(t)
	if err := c.consistent(); err != nil {
		t.Fatalf("%s deposed at request %d, after %v: %v", x.name, n, after, err)
	}
	return true
}

// failsOver reports whether an error is that of a primary that is none any more.
func failsOver(err error) bool {
	return mongoerr.Is(err, mongoerr.PrimarySteppedDown, mongoerr.NotWritablePrimary, mongoerr.HostUnreachable)
}

// drain removes s1: it asks again until the shard has gone, as who drains one does, while the
// balancer moves what lies there.
func (c *cluster) drain(t *testing.T) {
	t.Helper()
	for range 1000 {
		c.await(t)
		reply, err := c.run(bson.MustParse(`{_configsvrRemoveShard: "s1"}`))
		switch {
		case mongoerr.Is(err, mongoerr.ShardNotFound):
			return
		case err != nil && !failsOver(err) && !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress):
			t.Fatal(err)
		case err == nil && text(reply, "state") == string(removed):
			return
		}
		if now, err := c.s.term(); err == nil {
			_, _, _ = c.s.round(now.ctx) // a primary that is deposed does nothing
		}
		if _, err := c.run(bson.MustParse(`{_configsvrMovePrimary: "other", to: "s0"}`)); err != nil && !failsOver(err) {
			t.Fatal(err)
		}
	}
	t.Fatal("the shard is not drained")
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
	if err := c.sameOnAll(all); err != nil {
		return err
	}
	return c.chunksKnown(all)
}

// sameOnAll checks that all shards, and who has been one, know the same of what holds for all:
// the cluster, its settings, and what was defined of each collection.
func (c *cluster) sameOnAll(all []collectionDoc) error {
	members, err := c.s.shards()
	if err != nil {
		return err
	}
	settings := map[string]string{}
	for _, of := range []string{node.BlockNamespace.Coll, node.ParametersNamespace.Coll} {
		docs, err := c.s.all(of)
		if err != nil {
			return err
		}
		for _, d := range docs {
			settings[of+" "+strings.Trim(d.Lookup("_id").String(), `"`)] = bson.Document(d).String()
		}
	}
	for id, set := range c.sets {
		member := slices.ContainsFunc(members, func(sh shardDoc) bool { return sh.ID == id })
		switch {
		case member != (set.shard.Identity != ""):
			return fmt.Errorf("%s is a shard: %v, and takes itself for one of %q", id, member, set.shard.Identity)
		case member && !maps.Equal(settings, set.shard.Settings):
			return fmt.Errorf("%s has the settings %s, and not %s", id, set.shard.Settings, settings)
		case !member && len(set.shard.Settings) > 0:
			return fmt.Errorf("%s is no shard, and has the settings %s", id, set.shard.Settings)
		}
	}
	for i := range all {
		owners, err := c.s.owners(&all[i])
		if err != nil {
			return err
		}
		first := c.sets[owners[0]].shard.Collections[all[i].Namespace]
		for _, id := range owners[1:] {
			if coll := c.sets[id].shard.Collections[all[i].Namespace]; !slices.Equal(coll.Indexes, first.Indexes) || coll.Modified != first.Modified {
				return fmt.Errorf("%s of %s has %s %s, and %s has %s %s", all[i].Namespace, id, coll.Indexes, coll.Modified, owners[0], first.Indexes, first.Modified)
			}
		}
	}
	return nil
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

// TestKeyChangesMeanwhile: where to split or what to move is computed before others are waited for.
// If that was a resharding, it was computed by another key, and nothing is done: config.chunks
// would have a bound of that key, and no router could read the collection's chunks.
func TestKeyChangesMeanwhile(t *testing.T) {
	for _, text := range []string{`{_configsvrSplit: "app.events", find: {x: 7}}`, `{_configsvrMoveRange: "app.events", min: {x: {$minKey: 1}}, toShard: "s1"}`} {
		c := start(t)
		c.add("s0")
		c.add("s1")
		for _, before := range []string{`{_configsvrAddShard: "s0/s0:27018"}`, `{_configsvrAddShard: "s1/s1:27018"}`, `{_configsvrShardCollection: "app.events", key: {x: 1}}`} {
			if _, err := c.run(bson.MustParse(before)); err != nil {
				t.Fatal(err)
			}
		}
		c.fill("s0", "app.events", 0, 100)
		changed := false
		c.mu.Lock()
		c.onAsk = func(body bson.Doc, _ bool) bool {
			if name, _ := body.First(); name != "_shardsvrSplitPoints" || changed {
				return false
			}
			changed = true
			c.mu.Unlock()
			defer c.mu.Lock()
			if _, err := c.run(bson.MustParse(`{_configsvrReshardCollection: "app.events", key: {x: "hashed"}, shardDistribution: [{shard: "s0", min: {x: {$minKey: 1}}, max: {x: {$maxKey: 1}}}]}`)); err != nil {
				t.Error(err)
			}
			return false
		}
		c.mu.Unlock()
		_, err := c.run(bson.MustParse(text))
		if !changed || !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
			t.Errorf("%s: %v", text, err)
		}
		all, err := c.s.all(chunks)
		if err != nil || len(all) != 1 {
			t.Errorf("%s: %s %v", text, all, err)
		}
		if err := c.consistent(); err != nil {
			t.Error(err)
		}
		c.end()
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
// one of the same process: others may have changed them in between (invariants own-term,
// one-change).
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
