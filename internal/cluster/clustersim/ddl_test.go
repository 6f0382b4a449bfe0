package clustersim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// pick returns one of some.
func pick[T any](a *agent, of []T) T { return of[a.rng.IntN(len(of))] }

// count counts a command that succeeded in n, and any other among the errors.
func (a *agent) count(err error, n *int) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.tell(err)
	if err == nil {
		*n++
	}
}

// reshard gives a collection another shard key.
func (a *agent) reshard() {
	b := new(bson.Builder).String("reshardCollection", "app."+pick(a, collections)).OpenDoc("key")
	if a.rng.IntN(2) == 0 {
		b.Int32("_id", 1)
	} else {
		b.String("_id", "hashed")
	}
	_, err := a.run(a.router(), "admin", b.Close().Int32("numInitialChunks", int32(1+a.rng.IntN(6))).Finish())
	a.count(err, &a.w.resharded)
}

// index makes or drops an index.
func (a *agent) index() {
	coll, field := pick(a, collections), pick(a, []string{"v", "x"})
	b := new(bson.Builder)
	if a.rng.IntN(3) > 0 {
		b.String("createIndexes", coll).OpenArray("indexes").OpenDoc("0").OpenDoc("key").Int32(field, 1).Close().String("name", field+"_1").Close().Close()
	} else {
		b.String("dropIndexes", coll).String("index", field+"_1")
	}
	_, err := a.run(a.router(), "app", b.Finish())
	a.count(err, &a.w.indexed)
}

// drain has the balancer take all from a shard for a while.
func (a *agent) drain() {
	shard := pick(a, shards[1:])
	_, _ = a.run(a.router(), "admin", new(bson.Builder).Int32("balancerStart", 1).Finish())
	_, err := a.run(a.router(), "admin", new(bson.Builder).String("startShardDraining", shard).Finish())
	a.count(err, &a.w.drained)
	time.Sleep(time.Duration(a.rng.IntN(2500)) * time.Millisecond)
	_, _ = a.run(a.router(), "admin", new(bson.Builder).String("stopShardDraining", shard).Finish()) // else at the end
}

// endDrains has all shards keep what they have.
func (w *world) endDrains(a *agent) {
	for _, shard := range shards[1:] {
		a.must("r0", "admin", fmt.Sprintf(`{stopShardDraining: %q}`, shard))
	}
	a.must("r0", "admin", `{balancerStop: 1}`)
}

// judgeIndexes holds that a collection has the same indexes on all shards that have a part of it,
// and that the router tells the same.
func (w *world) judgeIndexes(a *agent) {
	names := func(at, coll string) string {
		all := map[string]bool{}
		for _, d := range first(a.must(at, "app", fmt.Sprintf(`{listIndexes: %q}`, coll))) {
			all[d.Lookup("name").Str()] = true
		}
		return strings.Join(slices.Sorted(maps.Keys(all)), ", ")
	}
	for _, coll := range collections {
		want := names("r0", coll)
		for _, s := range shards {
			if len(first(a.must(s, "app", fmt.Sprintf(`{find: %q, limit: 1}`, coll)))) == 0 {
				continue
			}
			if got := names(s, coll); got != want {
				w.fail("%s has the indexes %s on %s, and %s through a router", coll, got, s, want)
			}
		}
	}
}
