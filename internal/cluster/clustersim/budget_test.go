package clustersim

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// removal is a count of what is left of a collection that expires, at a time.
type removal struct {
	at   time.Time
	left int64
}

// TestBudgetOfCluster: a budget of expiry is one for all shards. At no time more is removed than
// it allows, and where the shards can ask for their shares, it is used: while all is well, while
// one shard is cut off from the config servers, when these fail over, and from the reply on
// when it is lowered.
func TestBudgetOfCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, seed: 19, dir: t.TempDir(), rng: rand.New(rand.NewPCG(19, 2)), begun: time.Now(), net: newNetwork(19), errors: map[string]int{}, calm: true}
		w.found()
		a := w.agent("clerk", 4)
		const documents = 12_000
		a.must("r0", "admin", `{shardCollection: "app.due", key: {_id: "hashed"}}`)
		a.must("r0", "app", `{createIndexes: "due", indexes: [{key: {at: 1}, name: "at_1", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {budget: {documentsPerSecond: 200}}}}}]}`)
		due := time.Now().Add(5 * time.Second)
		for from := 0; from < documents; from += 1000 {
			b := new(bson.Builder).String("insert", "due").OpenArray("documents")
			for i := range 1000 {
				b.OpenDoc(bson.Index(i)).Int32("_id", int32(from+i)).Date("at", due.UnixMilli()).Close()
			}
			if _, err := a.run("r0", "app", b.Close().Finish()); err != nil {
				t.Fatal(err)
			}
		}
		left := func() (n int64) {
			for _, s := range shards {
				n += bson.ClampToInt64(a.must(s, "app", `{count: "due"}`).Lookup("n"))
			}
			return n
		}
		// phase counts for a while, and holds what went between any two of the counts against the
		// budget; least is how much of the budget has to be used.
		phase := func(name string, long time.Duration, budget int64, least float64) {
			t.Helper()
			var counts []removal
			for began := time.Now(); time.Since(began) < long; time.Sleep(250 * time.Millisecond) {
				counts = append(counts, removal{time.Now(), left()})
			}
			for i, from := range counts {
				for _, to := range counts[i+1:] {
					gone, most := from.left-to.left, float64(budget)*(to.at.Sub(from.at).Seconds()+1.05)+float64(len(shards))
					if float64(gone) > most {
						t.Fatalf("%s: %d documents go in %v, where %d a second may", name, gone, to.at.Sub(from.at), budget)
					}
				}
			}
			used := float64(counts[0].left-counts[len(counts)-1].left) / float64(budget) / counts[len(counts)-1].at.Sub(counts[0].at).Seconds()
			t.Logf("%s: %.2f of the budget is used, %d documents are left", name, used, counts[len(counts)-1].left)
			if used < least {
				t.Errorf("%s: %.2f of the budget is used", name, used)
			}
		}
		time.Sleep(time.Until(due) + 8*time.Second) // until the first shares are by what is due
		phase("all is well", 10*time.Second, 200, 0.8)
		w.net.cutOff("s1", "cfg")
		w.net.cutOff("cfg", "s1")
		phase("a shard is cut off", 10*time.Second, 200, 0.4)
		on := bson.ClampToInt64(a.must("s1", "app", `{count: "due"}`).Lookup("n"))
		time.Sleep(2 * time.Second)
		if now := bson.ClampToInt64(a.must("s1", "app", `{count: "due"}`).Lookup("n")); now != on || on == 0 {
			t.Errorf("it has %d documents, and then %d", on, now)
		}
		w.net.heal(false)
		cfg := w.all[0]
		cfg.crash(100, w.rng)
		cfg.start()
		phase("the config servers fail over", 12*time.Second, 200, 0.3)
		a.must("r1", "app", `{collMod: "due", index: {name: "at_1", storageEngine: {mayfly: {expiry: {budget: {documentsPerSecond: 20}}}}}}`)
		phase("the budget is lowered", 10*time.Second, 20, 0.8)
		if w.failure != nil {
			t.Error(w.failure)
		}
		a.close()
		for _, p := range w.all {
			p.end()
		}
	})
}
