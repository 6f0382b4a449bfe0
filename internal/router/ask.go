package router

import (
	"context"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/wire"
)

// ours are the arguments of a client's command that shards get from the router, or not.
var ours = map[string]bool{
	"$db": true, "$clusterTime": true, "$readPreference": true, "shardVersion": true, "databaseVersion": true, "$configTime": true, "$topologyTime": true, "shardKeyMayBe": true,
}

// appendRest writes the fields of a client's command but for the first, those that the
// router writes itself, and those that leave names.
func appendRest(b *bson.Builder, body bson.Doc, leave ...string) {
	it := body.Iter()
	it.Next()
fields:
	for it.Next() {
		if ours[it.Key] {
			continue
		}
		for _, name := range leave {
			if it.Key == name {
				continue fields
			}
		}
		b.Value(it.Key, it.Value)
	}
}

// question is what one shard is asked for an operation.
type question struct {
	shard     string
	db        string
	body      bson.Doc
	sequences []wire.Sequence
	reads     bool // by the read preference of the operation's client
}

// readPreference is what op's client wants to read from.
func readPreference(op *command.Op) (client.ReadPreference, error) {
	return client.ParseReadPreference(document(op.Body.Lookup("$readPreference")))
}

// ask asks a shard for op, whose operationTime then counts what it answered. Errors: the
// shard's, those of client.Set.
func (r *Router) ask(ctx context.Context, op *command.Op, q question) (client.Answer, error) {
	set, err := r.shards.shard(ctx, q.shard)
	if err != nil {
		return client.Answer{}, err
	}
	c := client.Call{DB: q.db, Body: q.body, Sequences: q.sequences, Idempotent: q.reads || op.Generic.HasTxnNumber}
	if q.reads {
		if c.Read, err = readPreference(op); err != nil {
			return client.Answer{}, err
		}
	}
	a, err := set.Run(ctx, c)
	if a.Reply != nil {
		if t := a.Reply.Lookup("operationTime"); t.Type == bson.TypeTimestamp {
			op.OperationTime.Observe(t.Timestamp())
		}
	}
	return a, err
}

// each runs f for each of the names at once, and returns what came out, in their order.
// The error is one that says a route was old, else the first.
func each[T any](names []string, f func(name string) (T, error)) ([]T, error) {
	out, errs := make([]T, len(names)), make([]error, len(names))
	if len(names) == 1 {
		out[0], errs[0] = f(names[0])
		return out, errs[0]
	}
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { out[i], errs[i] = f(name) })
	}
	all.Wait()
	return out, worst(errs)
}

func worst(errs []error) error {
	var first error
	for _, err := range errs {
		if isStale(err) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}
