package configsvr

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// claimWait is how long an operation waits for conflicting ones, as long as a DDL waits
// for locks in mongod.
const claimWait = 5 * time.Second

// claim is what an operation needs: exclusive use of names; or, for a move, two shards
// within a namespace, in which other moves may run.
type claim struct {
	alone  []string // namespaces, databases, or "shard " and an id
	within string   // of a move: the namespace
	shards []string // of a move
}

// claimOf returns the claim of an operation.
func claimOf(o *step.Operation) claim {
	switch o.Kind {
	case step.KindMove:
		return claim{within: o.Namespace, shards: o.Shards()}
	case step.KindAddShard, step.KindRemoveShard:
		var dbs []string
		if v := o.Args.Lookup("databases"); v.Type == bson.TypeDocument {
			for db := range v.Doc().All() {
				dbs = append(dbs, db)
			}
		}
		return shardListClaim(o.Namespace, dbs)
	case step.KindSettings:
		return claim{alone: []string{shardList}}
	case step.KindRename, step.KindRenameUnsharded:
		return claim{alone: []string{o.Namespace, text(o.Args, "to")}}
	}
	return claim{alone: []string{o.Namespace}}
}

// shardList is what an operation claims that adds or removes a shard, or has all shards do the
// same.
const shardList = "shard list"

// shardListClaim is the claim of an operation that adds a shard, which has these databases,
// or removes one. Its primary shard hears of a database before other operations on it.
func shardListClaim(id string, dbs []string) claim {
	return claim{alone: append([]string{"shard " + id, shardList}, dbs...)}
}

// claims holds the claims by the numbers of their operations.
type claims struct {
	mu      sync.Mutex
	alone   map[string]int64
	moves   map[int64]claim
	changed catalog.Notifier
}

func (c *claims) init() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone, c.moves = map[string]int64{}, map[int64]claim{}
	c.changed.Broadcast()
}

// overlap reports whether two names are equal, or one is the database of the other.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") && !strings.Contains(b, ".") || strings.HasPrefix(b, a+".") && !strings.Contains(a, ".")
}

// conflictsLocked returns the operations that conflict with a claim. The caller holds c.mu.
func (c *claims) conflictsLocked(want claim) (out []int64) {
	for name, number := range c.alone {
		hit := want.within != "" && overlap(name, want.within)
		for _, n := range want.alone {
			hit = hit || overlap(name, n)
		}
		for _, id := range want.shards {
			hit = hit || name == "shard "+id
		}
		if hit {
			out = append(out, number)
		}
	}
	for number, m := range c.moves {
		hit := false
		for _, n := range want.alone {
			hit = hit || overlap(n, m.within)
		}
		for _, id := range m.shards {
			for _, other := range want.shards {
				hit = hit || id == other
			}
			for _, n := range want.alone {
				hit = hit || n == "shard "+id
			}
		}
		if hit {
			out = append(out, number)
		}
	}
	return out
}

// take adds a claim that has no conflicts.
func (c *claims) take(want claim, number int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takeLocked(want, number)
}

func (c *claims) takeLocked(want claim, number int64) {
	for _, n := range want.alone {
		c.alone[n] = number
	}
	if want.within != "" {
		c.moves[number] = want
	}
}

// free removes a claim.
func (c *claims) free(number int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.alone, func(_ string, n int64) bool { return n == number })
	delete(c.moves, number)
	c.changed.Broadcast()
}

// rename changes the number of a claim to that of its operation.
func (c *claims) rename(from, to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, number := range c.alone {
		if number == from {
			c.alone[n] = to
		}
	}
	if m, ok := c.moves[from]; ok {
		delete(c.moves, from)
		c.moves[to] = m
	}
}

// wait takes a claim as soon as nothing conflicts with it. Each time it calls cancel for
// the conflicting operations.
// Errors: 117, the cause of ctx's end.
func (c *claims) wait(ctx context.Context, want claim, number int64, cancel func(int64)) error {
	ctx, end := context.WithTimeoutCause(ctx, claimWait, mongoerr.New(mongoerr.ConflictingOperationInProgress,
		"another operation on %s is in progress", strings.Join(append(want.alone, want.shards...), ", ")))
	defer end()
	for {
		c.mu.Lock()
		others := c.conflictsLocked(want)
		next := c.changed.Next()
		if len(others) == 0 {
			c.takeLocked(want, number)
		}
		c.mu.Unlock()
		if len(others) == 0 {
			return nil
		}
		for _, o := range others {
			cancel(o)
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// movesOf are the moves of a collection.
func (c *claims) movesOf(ns string) (out []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for number, m := range c.moves {
		if m.within == ns && number > 0 {
			out = append(out, number)
		}
	}
	return out
}
