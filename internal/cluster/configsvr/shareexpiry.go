package configsvr

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// A budget of expiry is one for all shards of a collection. The primary of the config servers
// divides it: each shard asks every second, and gets a part of 1 for some seconds. What is given
// at a time is 1 at most (invariant whole-budget), so a change of the budget itself needs nothing
// here. What was given is in memory only: a new primary gives nothing until all that others may
// have given is over.

const (
	// shareLease is for how long a shard has its part, from when it asked for it.
	shareLease = 3 * time.Second
	// shareHeld is for how long a part counts as given, from when it was. It is longer than the
	// lease by what clocks may differ in their pace.
	shareHeld = shareLease + time.Second
	// evenShare is the part of a budget that all shards on which something is due have in equal
	// parts; they have the rest by how far they are behind.
	evenShare = 0.1
	// maxShares bounds the budgets of a request.
	maxShares = 1000
)

// shareExpiry answers {_configsvrShareExpiry: shard, budgets: [{collection: uuid, rule: index, lag:
// ms}]} with {parts: [double], millis}: the shard's part of each budget, which ends that long
// after it asked. rule is "" for the budget of the collection, lag how long the oldest document
// that is due has been. Errors: 2, 10107.
func (s *Server) shareExpiry() *command.Command {
	budget := command.NewFields("budgets", command.UUID("collection").Required(), command.String("rule").Required(), command.SafeInt64("lag").Required())
	return newCommand("ShareExpiry", command.String(""), s.runShareExpiry, command.ArrayOf("budgets", command.Struct("", budget)).Required())
}

func (s *Server) runShareExpiry(ctx context.Context, op *command.Op) error {
	budgets := op.Args.Structs("budgets")
	if len(budgets) > maxShares {
		return badValue("%d budgets are asked for, and %d may be", len(budgets), maxShares)
	}
	now := time.Now() // what is given counts from here: whoever is primary next begins its term later
	if err := s.Primary.ReadIndex(ctx); err != nil {
		return err
	}
	t, err := s.term()
	if err != nil {
		return err
	}
	s.sharing.Lock()
	defer s.sharing.Unlock()
	if !s.sharing.of(t, now) {
		return errDeposed
	}
	b := op.Reply.OpenArray("parts")
	for i := range budgets {
		id, _ := budgets[i].UUID("collection")
		part := s.sharing.give(sharedBudget{id, budgets[i].Str("rule")}, value(op), max(budgets[i].Int64("lag"), 0), now)
		b.Double(bson.Index(i), part)
	}
	b.Close().Int64("millis", shareLease.Milliseconds())
	return nil
}

// sharing is what one primary has given of budgets.
type sharing struct {
	sync.Mutex
	term *term
	// gives is when it begins to give.
	gives   time.Time
	swept   time.Time
	budgets map[sharedBudget]map[string]*shareholder
}

// sharedBudget names a budget of a collection, or that of a rule of it.
type sharedBudget struct {
	collection bson.UUID
	rule       string
}

// shareholder is a shard that asks for its part of a budget.
type shareholder struct {
	lag   int64
	until time.Time // what it said of its lag counts
	// given are the parts that it may have, the largest first: an answer that was lost leaves
	// the one before it in force. Each lasts longer than those before it.
	given []givenShare
}

type givenShare struct {
	part  float64
	until time.Time
}

// of begins anew in each term, and forgets who has not asked for long. False for a term before
// the one of which it is. The caller holds the lock.
func (s *sharing) of(t *term, now time.Time) bool {
	if s.term != nil && t.began.Before(s.term.began) {
		return false
	}
	if s.term != t {
		s.term, s.gives, s.swept, s.budgets = t, t.began.Add(shareHeld), now, map[sharedBudget]map[string]*shareholder{}
	}
	if now.Sub(s.swept) < shareHeld {
		return true
	}
	s.swept = now
	for b, all := range s.budgets {
		for shard, h := range all {
			if h.until.Before(now) {
				delete(all, shard)
			}
		}
		if len(all) == 0 {
			delete(s.budgets, b)
		}
	}
	return true
}

// held is the most that the shard may have.
func (h *shareholder) held(now time.Time) float64 {
	for len(h.given) > 0 && h.given[0].until.Before(now) {
		h.given = h.given[1:]
	}
	if len(h.given) == 0 {
		return 0
	}
	return h.given[0].part
}

// give returns a shard's part of a budget, and remembers it. The caller holds the lock.
func (s *sharing) give(b sharedBudget, shard string, lag int64, now time.Time) (part float64) {
	all := s.budgets[b]
	if all == nil {
		all = map[string]*shareholder{}
		s.budgets[b] = all
	}
	h := all[shard]
	if h == nil {
		h = &shareholder{}
		all[shard] = h
	}
	h.lag, h.until = lag, now.Add(shareHeld)
	free := 1.0
	var behind, sum float64
	for name, o := range all {
		if name != shard {
			free -= o.held(now)
		}
		if !o.until.Before(now) && o.lag > 0 {
			behind++
			sum += float64(o.lag)
		}
	}
	switch {
	case now.Before(s.gives):
		return 0
	case lag > 0:
		part = evenShare/behind + (1-evenShare)*float64(lag)/sum
	case behind == 0:
		part = 1 / float64(len(all))
	}
	part = min(part, max(free, 0))
	h.held(now)
	until := now.Add(shareHeld)
	for n := len(h.given); n > 0 && h.given[n-1].part <= part; n-- {
		if o := h.given[n-1].until; o.After(until) { // of a request that came later
			until = o
		}
		h.given = h.given[:n-1]
	}
	h.given = append(h.given, givenShare{part, until})
	return part
}
