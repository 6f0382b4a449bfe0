package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
)

// planCaches returns the commands about cached plans and index filters, which each shard
// keeps for itself.
func (r *Router) planCaches() []*command.Command {
	var all []*command.Command
	for _, name := range []string{"planCacheClear", "planCacheClearFilters", "planCacheListFilters", "planCacheSetFilter"} {
		all = append(all, &command.Command{Name: name, Help: "passed on to the shards that have the collection", Run: r.runOnOwners})
	}
	return all
}

// runOnOwners runs op's command on all shards that have its collection. The reply is that
// of the first, with those of all by their names where there are several, as mongos does.
func (r *Router) runOnOwners(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	rt, err := r.newestRoute(ctx, ns)
	if err != nil {
		return err
	}
	names, replies, err := r.askOwners(ctx, op, rt)
	if err != nil {
		return err
	}
	passReply(op, replies[0])
	if len(names) > 1 {
		for i, name := range names {
			op.Reply.Doc(name, withoutFields(replies[i], "$clusterTime", "operationTime"))
		}
	}
	return nil
}

// validateMetadata answers {validateDBMetadata: 1, apiParameters} with what all shards have
// that the Stable API does not.
func (r *Router) validateMetadata() *command.Command {
	return &command.Command{Name: "validateDBMetadata", Help: "checks metadata by the Stable API", Run: r.runValidateMetadata}
}

func (r *Router) runValidateMetadata(ctx context.Context, op *command.Op) error {
	names, err := r.servers(ctx)
	if err != nil {
		return err
	}
	answers, err := each(names, func(name string) (client.Answer, error) {
		command, first := op.Body.First()
		b := new(bson.Builder).Value(command, first)
		appendRest(b, op.Body)
		return r.ask(ctx, op, question{shard: name, db: op.DB, body: b.Finish(), reads: true})
	})
	if err != nil {
		return err
	}
	n := 0
	op.Reply.OpenArray("apiVersionErrors")
	for _, a := range answers {
		for _, d := range documents(a.Reply.Lookup("apiVersionErrors")) {
			op.Reply.Doc(bson.Index(n), d)
			n++
		}
	}
	op.Reply.Close()
	return nil
}
