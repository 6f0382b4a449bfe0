package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// replSetMaintenance makes a secondary stop serving clients, or serve them again; it
// follows the set in either case. (Manual: database command replSetMaintenance.)
func (n *Node) replSetMaintenance() *command.Command {
	return &command.Command{
		Name: "replSetMaintenance", Run: n.runReplSetMaintenance, Help: "{ replSetMaintenance : bool }\nEnable or disable maintenance mode.",
	}
}

func (n *Node) runReplSetMaintenance(_ context.Context, op *command.Op) error {
	if _, err := n.setState(); err != nil {
		return err
	}
	_, v := op.Body.First()
	return n.Dispatcher.Member.Maintenance(v.Truthy())
}
