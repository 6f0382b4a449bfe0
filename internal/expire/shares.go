package expire

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// A budget of a sharded collection is one for the cluster. A shard removes by its share of it,
// which the config servers' primary says and which ends after some seconds: a shard that cannot
// ask removes nothing under a budget (invariant leased).

// Claim is what a shard tells of a budget to get its share.
type Claim struct {
	Collection catalog.UUID
	// Rule is the name of the index whose budget it is; "" for the collection's.
	Rule string
	// Lag is how long the oldest document that is due has been; 0 for none.
	Lag time.Duration
}

// Shares are what a shard has of budgets.
type Shares struct {
	// Parts are from 0 to 1, in the order of the claims.
	Parts []float64
	// For is how long they last, from when they were asked for.
	For time.Duration
}

const (
	// shareInterval is how often a shard asks.
	shareInterval = time.Second
	// shareWait is how long it waits for the answer.
	shareWait = 2 * time.Second
	// maxClaims bounds the budgets of one question.
	maxClaims = 1000
)

// Ids of the log lines about shares.
const (
	logUnshared = 9000508
	logShared   = 9000509
)

// shareBudgets asks for the shares of budgets of sharded collections while this member takes
// writes.
func (m *Monitor) shareBudgets(ctx context.Context) {
	ticker := time.NewTicker(shareInterval)
	defer ticker.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if m.o.Dispatcher.TakesWrites() != nil {
			continue
		}
		for claims := range slices.Chunk(m.claims(), maxClaims) {
			err := m.askShares(ctx, claims)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && !failed:
				m.say(ctx, slog.LevelWarn, logUnshared, "the config servers say nothing of budgets: under a budget sharded collections keep what is due", slog.String("error", err.Error()))
			case err == nil && failed:
				m.say(ctx, slog.LevelInfo, logShared, "the config servers say again what of budgets is this shard's")
			}
			failed = err != nil
		}
	}
}

// askShares asks once.
func (m *Monitor) askShares(ctx context.Context, claims []Claim) error {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	asked := time.Now() // (invariant leased)
	shares, err := m.o.Shares(ctx, claims)
	if err != nil {
		return err
	}
	now := time.Now()
	for i, c := range claims {
		m.states.budgetOf(rule{c.Collection, c.Rule}).grant(shares.Parts[i], asked.Add(shares.For), now)
	}
	return nil
}

// claims are the budgets of sharded collections by which something may be removed here.
func (m *Monitor) claims() (all []Claim) {
	ofCollection := map[catalog.UUID]int{}
	for _, r := range m.rules() {
		c := m.o.Catalog.LookupUUID(r.collection)
		if c == nil || c.Sharding() == nil || c.Sharding().Moves() {
			continue
		}
		in := inForce(c, r)
		if in == nil || m.closed(in) {
			continue
		}
		lag := m.Status(c, r.index).Lag
		if in.Own.Budget != (schema.Budget{}) {
			all = append(all, Claim{r.collection, r.index, lag})
		}
		if c.Settings.Expiry.Budget == (schema.Budget{}) {
			continue
		}
		at, ok := ofCollection[r.collection]
		if !ok {
			at = len(all)
			ofCollection[r.collection], all = at, append(all, Claim{Collection: r.collection})
		}
		all[at].Lag = max(all[at].Lag, lag)
	}
	return all
}

// inForce finds a rule of documents or of buckets that is in force, or returns nil.
func inForce(c *catalog.Collection, r rule) *schema.Rule {
	if !c.IsTimeseries() {
		if in := ruleOf(c, r); in != nil {
			return in.Rule
		}
		return nil
	}
	for _, in := range c.BucketRules() {
		if in.Name == r.index {
			return in.Rule
		}
	}
	return nil
}
