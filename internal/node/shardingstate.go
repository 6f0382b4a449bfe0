package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// shardingState says which shard of which cluster this server is, and at which versions its
// collections are. (Manual: database command shardingState.)
func (n *Node) shardingState() *command.Command {
	return &command.Command{
		Name: "shardingState", Flags: command.AdminOnly, Help: "show the sharding state of this server",
		Run: func(_ context.Context, op *command.Op) error {
			if !n.shard {
				op.Reply.Bool("enabled", false)
				return nil
			}
			id, err := n.Stored(identityNamespace, ShardIdentity)
			if err != nil || id == nil {
				op.Reply.Bool("enabled", false)
				return err
			}
			op.Reply.Bool("enabled", true).Value("configServer", id.Lookup("configsvrConnectionString")).Value("shardName", id.Lookup("shardName")).
				Value("clusterId", id.Lookup("clusterId")).OpenDoc("versions")
			for _, db := range n.Catalog.Databases() {
				for _, c := range n.Catalog.Collections(db) {
					if s := c.Sharding(); s != nil {
						s.Version.Append(op.Reply, c.Namespace.String())
					}
				}
			}
			op.Reply.Close()
			return nil
		},
	}
}
