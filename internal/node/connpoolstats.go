package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// connPoolStats counts the server's own connections to other servers, of which
// a standalone has none.
func (n *Node) connPoolStats() *command.Command {
	return &command.Command{
		Name: "connPoolStats", Help: "stats about connections between servers in a replica set or sharded cluster.",
		Run: func(_ context.Context, op *command.Op) error {
			for _, name := range []string{
				"numClientConnections", "numAScopedConnections", "totalInUse", "totalAvailable", "totalLeased", "totalCreated",
				"totalRefreshing", "totalRefreshed", "totalWasNeverUsed",
			} {
				op.Reply.Int32(name, 0)
			}
			op.Reply.OpenDoc("pools").Close().OpenDoc("hosts").Close().OpenDoc("replicaSets").Close()
			return nil
		},
	}
}
