package router

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/waits"
	"github.com/mayflydb/mayfly/internal/wire"
)

// ours has the arguments of a client's command that the router sets itself, or does not
// forward.
var ours = map[string]bool{
	"$db": true, "$clusterTime": true, "$readPreference": true, "shardVersion": true, "databaseVersion": true, "$configTime": true, "$topologyTime": true, "shardKeyMayBe": true, "localNow": true, "transactionIdleMS": true,
	"mayBypassWriteBlocking": true,
}

// appendRest appends the fields of a client's command except the first, those in ours,
// and those that leave names.
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

// question is a request to one shard on behalf of an operation.
type question struct {
	shard     string
	db        string
	body      bson.Doc
	sequences []wire.Sequence
	reads     bool // uses the read preference of the operation's client
	now       bool // the sequences have $$NOW
	outside   bool // is no part of the operation's transaction
	// within is a transaction of the router's own, of which it is a part; nil for none.
	within *transaction
}

// hasNow reports whether an expression in one of some documents may have $$NOW.
func hasNow(docs ...bson.Doc) bool {
	return slices.ContainsFunc(docs, func(d bson.Doc) bool { return bytes.Contains(d, nowVariable) })
}

var nowVariable = []byte("$$NOW")

// readPreference returns the read preference of op's client.
func readPreference(op *command.Op) (client.ReadPreference, error) {
	return client.ParseReadPreference(document(op.Body.Lookup("$readPreference")))
}

// ask sends a request of op to a shard, and advances op's operationTime by the reply.
// Errors: the shard's, those of client.Set.
func (r *Router) ask(ctx context.Context, op *command.Op, q question) (client.Answer, error) {
	set, err := r.shards.shard(ctx, q.shard)
	if err != nil {
		return client.Answer{}, err
	}
	if !op.Start.IsZero() && (q.now || hasNow(q.body)) { // which is one, whoever executes a part of the statement
		q.body = withField(q.body, "localNow", bson.Date(op.Start.UnixMilli()))
	}
	q.body = r.judged(op, q.body)
	w := waits.Of(ctx)
	w.Begin(waits.Shards)
	defer w.End(waits.Shards)
	tx := q.within
	if tx == nil && !q.outside {
		tx = r.transactions.of(op)
	}
	if tx != nil {
		a, err := tx.ask(ctx, set, q.shard, client.Call{DB: q.db, Body: q.body, Sequences: q.sequences})
		observe(op, a)
		return a, err
	}
	c := client.Call{DB: q.db, Body: q.body, Sequences: q.sequences, Idempotent: q.reads || retryable(op)}
	if q.reads {
		if c.Read, err = readPreference(op); err != nil {
			return client.Answer{}, err
		}
	}
	a, err := set.Run(ctx, c)
	observe(op, a)
	return a, err
}

// judged adds to a request on behalf of op whether its client may write where user writes are
// blocked: the server that gets it knows only the router.
func (r *Router) judged(op *command.Op, body bson.Doc) bson.Doc {
	if r.Dispatcher.Authorize == nil || op.Client == nil {
		return body
	}
	return withField(body, "mayBypassWriteBlocking", bson.Bool(op.BypassesBlock()))
}

// observe advances op's operationTime by a shard's answer.
func observe(op *command.Op, a client.Answer) {
	if a.Reply == nil {
		return
	}
	if t := a.Reply.Lookup("operationTime"); t.Type == bson.TypeTimestamp {
		op.OperationTime.Observe(t.Timestamp())
	}
}

// retryable reports whether op is a retryable write.
func retryable(op *command.Op) bool {
	return op.Generic.HasTxnNumber && !op.InTransaction()
}

// each runs f for all names in parallel, and returns the results in their order. Of
// several errors it returns one about a stale route, else the first.
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
