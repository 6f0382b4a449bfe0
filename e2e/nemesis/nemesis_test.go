package nemesis

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/e2e/hosts"
)

var (
	seed     = flag.Uint64("nemesis.seed", 1, "of the schedule")
	duration = flag.Duration("nemesis.duration", 40*time.Second, "how long the set is disturbed")
)

// opTimeout is how long an operation may take, retries included.
const opTimeout = 8 * time.Second

func chance(p float64) bool { return rand.Float64() < p }

// workload is what clients do with the set, and what is demanded of it for that.
type workload interface {
	// run works until ctx ends; it returns when all that it asked is answered.
	run(ctx context.Context)
	// check judges. The set is at rest.
	check(t *testing.T)
}

// TestNemesis disturbs a set of three processes.
func TestNemesis(t *testing.T) {
	if !hosts.Inside(t) {
		return
	}
	s := startSet(t)
	plan := newSchedule(*seed, *duration)
	t.Logf("schedule of -nemesis.seed=%d:\n%v", *seed, plan)
	workloads := []workload{newTally(s), newRegisters(s), newLists(s), newTransactions(s), newInserts(s), newQueue(s), newCausal(s), newExpiry(t, s)}
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for _, w := range workloads {
		work.Go(func() { w.run(ctx) })
	}
	plan.run(s)
	stop()
	work.Wait()
	s.recover()
	s.rest()
	for _, w := range workloads {
		w.check(t)
	}
	s.same()
	s.verify()
}
