package configsvr

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestWholeBudget: shards never have more than the whole of a budget together, while answers are
// late or lost, shards come and go, and primaries follow each other (invariant whole-budget).
func TestWholeBudget(t *testing.T) {
	type shard struct {
		part         float64
		asked, until time.Time
		answer       float64 // under way
		arrives      time.Time
	}
	const steps, step = 3000, 100 * time.Millisecond
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 19))
		now := time.Unix(1_000_000, 0)
		s, shards := sharing{}, make([]shard, 1+rng.IntN(6))
		primary := &term{began: now}
		var before *term // an earlier one of the same process, of which requests may be under way
		var most, given float64
		for range steps {
			now = now.Add(step)
			if rng.IntN(200) == 0 {
				before, primary = primary, &term{began: now}
				if rng.IntN(2) == 0 {
					before, s = nil, sharing{}
				}
			}
			var sum float64
			for i := range shards {
				h := &shards[i]
				if !h.arrives.IsZero() && !h.arrives.After(now) {
					h.part, h.until, h.arrives = h.answer, h.asked.Add(shareLease), time.Time{}
				}
				if now.Before(h.until) {
					sum += h.part
				}
				if h.asked.Add(time.Second).After(now) || rng.IntN(20) == 0 || !h.arrives.IsZero() && h.asked.Add(2*time.Second).After(now) {
					continue
				}
				h.asked, h.arrives = now, time.Time{}
				if rng.IntN(30) == 0 {
					continue // the question is lost
				}
				in, at := primary, now
				if before != nil && rng.IntN(5) == 0 { // the request was let in before that term ended
					in, at = before, primary.began
				}
				if !s.of(in, at) {
					continue
				}
				h.asked = at
				h.answer = s.give(sharedBudget{rule: "at_1"}, fmt.Sprint(i), rng.Int64N(3)*rng.Int64N(100_000), at)
				if rng.IntN(10) > 0 {
					h.arrives = now.Add(time.Duration(rng.IntN(20)) * step)
				}
			}
			most, given = max(most, sum), given+sum
		}
		if most > 1.000001 {
			t.Errorf("seed %d: %d shards have %v of a budget", seed, len(shards), most)
		}
		if given/steps < 0.3 {
			t.Errorf("seed %d: of a budget %v is given", seed, given/steps)
		}
	}
}

// TestSharesByLag: a shard that is behind gets more, one that has nothing due gets nothing, and
// none on which something is due starves.
func TestSharesByLag(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := sharing{}
	primary := &term{began: now}
	ask := func(lags ...int64) (parts []float64) {
		for range 12 { // until what was given before is over
			parts, now = nil, now.Add(time.Second)
			for i, lag := range lags {
				s.of(primary, now)
				parts = append(parts, s.give(sharedBudget{bson.UUID{1}, ""}, fmt.Sprint(i), lag, now))
			}
		}
		return parts
	}
	for _, x := range []struct {
		lags []int64
		want string
	}{
		{[]int64{0, 0}, "[0.50 0.50]"},
		{[]int64{7, 0}, "[1.00 0.00]"},
		{[]int64{1000, 1000}, "[0.50 0.50]"},
		{[]int64{1, 1_000_000_000}, "[0.05 0.95]"},
		{[]int64{0, 3000, 1000}, "[0.00 0.73 0.27]"},
	} {
		if got := fmt.Sprintf("%.2f", ask(x.lags...)); got != x.want {
			t.Errorf("lags of %v ms: %s, want %s", x.lags, got, x.want)
		}
	}
	s.of(primary, now.Add(time.Minute))
	if len(s.budgets) != 0 {
		t.Errorf("%d budgets are remembered of which nobody asks", len(s.budgets))
	}
}
