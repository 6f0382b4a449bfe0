package router

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ofCluster has the commands on the database admin that change or show the cluster. They
// are forwarded to the config primary under the names that mongos uses: addShard as
// _configsvrAddShard. Their arguments are checked there.
var ofCluster = []string{
	"addShard", "removeShard", "startShardDraining", "stopShardDraining", "shardDrainingStatus", "commitShardRemoval",
	"addShardToZone", "removeShardFromZone", "updateZoneKeyRange",
	"enableSharding", "shardCollection", "split", "mergeChunks", "mergeAllChunksOnShard", "moveChunk", "moveRange", "movePrimary",
	"moveCollection", "unshardCollection", "untrackUnshardedCollection", "abortMoveCollection", "abortUnshardCollection",
	"balancerStart", "balancerStop", "balancerStatus", "balancerCollectionStatus", "configureCollectionBalancing", "configureQueryAnalyzer",
	"refineCollectionShardKey", "reshardCollection", "commitReshardCollection", "abortReshardCollection",
	"cleanupOrphaned", "clearJumboFlag", "setAllowMigrations", "transitionFromDedicatedConfigServer", "transitionToDedicatedConfigServer",
	"startTransitionToDedicatedConfigServer", "stopTransitionToDedicatedConfigServer",
	"getTransitionToDedicatedConfigServerStatus", "commitTransitionToDedicatedConfigServer",
}

// once has those of them that are not sent again if the config servers do not answer: done
// twice they answer something else than done once.
var once = map[string]bool{
	"removeShard": true, "commitShardRemoval": true, "commitTransitionToDedicatedConfigServer": true, "split": true, "mergeChunks": true,
	"moveCollection": true, "unshardCollection": true, "untrackUnshardedCollection": true, "abortMoveCollection": true, "abortUnshardCollection": true,
	"reshardCollection": true, "commitReshardCollection": true, "abortReshardCollection": true,
}

// lowerCase has the old spellings of some of them.
var lowerCase = map[string]string{
	"addShard": "addshard", "removeShard": "removeshard", "enableSharding": "enablesharding", "shardCollection": "shardcollection", "moveChunk": "movechunk", "movePrimary": "moveprimary",
}

// clusterCommands returns the commands in ofCluster.
func (r *Router) clusterCommands() []*command.Command {
	var all []*command.Command
	for _, name := range ofCluster {
		c := &command.Command{
			Name: name, Flags: command.AdminOnly | command.TakesWriteConcern, Help: "passed on to the config servers",
			Run: func(ctx context.Context, op *command.Op) error {
				_, first := op.Body.First()
				b := new(bson.Builder).Value(configName(name), first)
				appendRest(b, op.Body)
				return r.passToConfig(ctx, op, client.Call{DB: "admin", Body: b.Finish(), Idempotent: !once[name]})
			},
		}
		if old := lowerCase[name]; old != "" {
			c.Aliases = []string{old}
		}
		all = append(all, c)
	}
	return all
}

// onConfig runs op's command on the config primary as _configsvr and name, with a value
// of its own, and forgets the routes that it may have changed.
func (r *Router) onConfig(ctx context.Context, op *command.Op, name string, value bson.Value) error {
	b := new(bson.Builder).Value(configName(name), value)
	appendRest(b, op.Body)
	return r.passToConfig(ctx, op, client.Call{DB: "admin", Body: b.Finish()})
}

// configName returns the config servers' name of a client's command.
func configName(name string) string { return "_configsvr" + strings.ToUpper(name[:1]) + name[1:] }

// passToConfig forwards a command to the config primary, and returns its reply.
func (r *Router) passToConfig(ctx context.Context, op *command.Op, call client.Call) error {
	call.Body = r.judged(op, call.Body)
	a, err := r.config.Run(ctx, call)
	if a.Reply != nil {
		if t := a.Reply.Lookup("operationTime"); t.Type == bson.TypeTimestamp {
			op.OperationTime.Observe(t.Timestamp())
		}
	}
	if ns := changed(op); ns != "" {
		r.routes.forget(func(n string) bool { return n == ns || strings.HasPrefix(n, ns+".") })
	}
	if mongoerr.Is(err, mongoerr.CommandNotFound) { // by the client's name
		return mongoerr.New(mongoerr.CommandNotFound, "no such command: '%s'", op.Name)
	}
	if err != nil {
		return err
	}
	passReply(op, a.Reply)
	joinDryRuns(op.Reply, document(a.Reply.Lookup("raw")), op.Start.UnixMilli())
	return nil
}

// changed returns the namespace or the database whose routes a command may have changed,
// "" for none.
func changed(op *command.Op) string {
	_, v := op.Body.First()
	switch {
	case v.Type != bson.TypeString && op.DB != "admin":
		return op.DB
	case v.Type != bson.TypeString:
		return ""
	case op.DB == "admin":
		return v.Str()
	}
	return op.DB + "." + v.Str()
}
