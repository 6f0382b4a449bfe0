package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// shardingState says that this server is not a shard.
func (n *Node) shardingState() *command.Command {
	return &command.Command{
		Name: "shardingState", Flags: command.AdminOnly, Help: "show the sharding state of this server",
		Run: func(_ context.Context, op *command.Op) error { op.Reply.Bool("enabled", false); return nil },
	}
}
