package router

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// everywhere returns the commands that are run on all shards, or all owners of a collection.
func (r *Router) everywhere() []*command.Command {
	return declared([]*command.Command{
		{Name: "appendOplogNote", Flags: command.AdminOnly | command.TakesWriteConcern, Help: "Adds a no-op entry to the oplog of each shard", Run: r.runAppendOplogNote},
		{Name: "fsync", Flags: command.AdminOnly, Help: "flushes pending writes of all servers to disk", Run: r.runFsync},
		{Name: "setFeatureCompatibilityVersion", Flags: command.AdminOnly | command.TakesWriteConcern, Help: "Set the featureCompatibilityVersion of the cluster.", Run: r.runSetFCV},
		{Name: "setIndexCommitQuorum", Flags: command.TakesWriteConcern, Help: "Set the commitQuorum for an index build", Run: r.runSetIndexCommitQuorum},
	})
}

// onShards runs op's command on some shards, and answers with the first write concern that was
// not met.
func (r *Router) onShards(ctx context.Context, op *command.Op, names []string) error {
	answers, err := each(names, func(name string) (client.Answer, error) {
		command, first := op.Body.First()
		b := new(bson.Builder).Value(command, first)
		appendRest(b, op.Body)
		return r.ask(ctx, op, question{shard: name, db: op.DB, body: b.Finish()})
	})
	if err != nil {
		return err
	}
	for _, a := range answers {
		if unmet := a.Reply.Lookup("writeConcernError"); !unmet.IsMissing() {
			op.Reply.Value("writeConcernError", unmet)
			break
		}
	}
	return nil
}

// servers are the shards and, where these are none of them, the config servers.
func (r *Router) servers(ctx context.Context) ([]string, error) {
	names, err := r.shards.names(ctx)
	if err == nil && !slices.Contains(names, configShard) {
		names = append(names, configShard)
	}
	return names, err
}

// runAppendOplogNote advances the cluster's time by an entry in each shard's log.
func (r *Router) runAppendOplogNote(ctx context.Context, op *command.Op) error {
	names, err := r.shards.names(ctx)
	if err != nil {
		return err
	}
	return r.onShards(ctx, op, names)
}

// runFsync makes everything durable. With a lock it is refused: a backup of a cluster is that of
// each set, while the balancer is stopped (docs/operate/cluster.md).
func (r *Router) runFsync(ctx context.Context, op *command.Op) error {
	if op.Args.Bool("lock") {
		return mongoerr.New(mongoerr.CommandNotSupported, "fsync with lock is not supported by a router: lock each set")
	}
	names, err := r.servers(ctx)
	if err != nil {
		return err
	}
	op.Reply.Int32("numFiles", int32(len(names)))
	return r.onShards(ctx, op, names)
}

// runSetFCV sets the version of the config servers, which check it, and then of the shards.
func (r *Router) runSetFCV(ctx context.Context, op *command.Op) error {
	if err := r.onShards(ctx, op, []string{configShard}); err != nil {
		return err
	}
	names, err := r.shards.names(ctx)
	if err != nil {
		return err
	}
	return r.onShards(ctx, op, slices.DeleteFunc(names, func(name string) bool { return name == configShard }))
}

// runSetIndexCommitQuorum asks the owners of the collection, of which each builds its part.
func (r *Router) runSetIndexCommitQuorum(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	return r.byRoute(ctx, op, ns, func(rt *route) error { return r.onShards(ctx, op, rt.owners()) })
}
