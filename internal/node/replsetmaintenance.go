package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// replSetMaintenance has a secondary serve nobody, or serve again; it follows the set
// all the same. (Manual: database command replSetMaintenance.)
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
