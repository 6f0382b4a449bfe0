package router

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
)

// ofCluster are the commands on the database admin that change or show the cluster. They
// go to the primary of the config servers under the name that mongod's routers use:
// addShard as _configsvrAddShard. What they take is checked there.
var ofCluster = []string{
	"addShard", "removeShard", "startShardDraining", "stopShardDraining", "shardDrainingStatus", "commitShardRemoval",
	"addShardToZone", "removeShardFromZone", "updateZoneKeyRange",
	"enableSharding", "shardCollection", "split", "mergeChunks", "mergeAllChunksOnShard", "moveChunk", "moveRange", "movePrimary",
	"moveCollection", "unshardCollection", "untrackUnshardedCollection", "abortMoveCollection", "abortUnshardCollection",
	"balancerStart", "balancerStop", "balancerStatus", "balancerCollectionStatus", "configureCollectionBalancing",
	"refineCollectionShardKey", "reshardCollection", "commitReshardCollection", "abortReshardCollection",
	"analyzeShardKey", "cleanupOrphaned", "clearJumboFlag", "setAllowMigrations", "transitionFromDedicatedConfigServer", "transitionToDedicatedConfigServer",
}

// lowerCase are the old spellings of some.
var lowerCase = map[string]string{
	"addShard": "addshard", "removeShard": "removeshard", "enableSharding": "enablesharding", "shardCollection": "shardcollection", "moveChunk": "movechunk", "movePrimary": "moveprimary",
}

// clusterCommands are those of ofCluster.
func (r *Router) clusterCommands() []*command.Command {
	var all []*command.Command
	for _, name := range ofCluster {
		c := &command.Command{
			Name: name, Flags: command.AdminOnly | command.TakesWriteConcern, Help: "passed on to the config servers",
			Run: func(ctx context.Context, op *command.Op) error {
				_, first := op.Body.First()
				return r.onConfig(ctx, op, name, first)
			},
		}
		if old := lowerCase[name]; old != "" {
			c.Aliases = []string{old}
		}
		all = append(all, c)
	}
	return all
}

// onConfig has the primary of the config servers run op's command as _configsvr and name,
// with a value of its own, and forgets the routes that it may have changed.
func (r *Router) onConfig(ctx context.Context, op *command.Op, name string, value bson.Value) error {
	b := new(bson.Builder).Value(configName(name), value)
	appendRest(b, op.Body)
	return r.passToConfig(ctx, op, "admin", b.Finish())
}

// configName is the name by which the config servers have a client's command.
func configName(name string) string { return "_configsvr" + strings.ToUpper(name[:1]) + name[1:] }

// passToConfig sends a command to the primary of the config servers, and answers as it
// does.
func (r *Router) passToConfig(ctx context.Context, op *command.Op, db string, body bson.Doc) error {
	a, err := r.config.Run(ctx, client.Call{DB: db, Body: body})
	if a.Reply != nil {
		if t := a.Reply.Lookup("operationTime"); t.Type == bson.TypeTimestamp {
			op.OperationTime.Observe(t.Timestamp())
		}
	}
	if ns := changed(op); ns != "" {
		r.routes.forget(func(n string) bool { return n == ns || strings.HasPrefix(n, ns+".") })
	}
	if err != nil {
		return err
	}
	passReply(op, a.Reply)
	return nil
}

// changed is the namespace, or the database, whose routes a command may have changed; ""
// for none.
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
