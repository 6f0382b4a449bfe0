package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// replSetStepUp makes the member stand for election at once. (mongod's tests and
// tools use it.)
func (n *Node) replSetStepUp() *command.Command {
	return &command.Command{
		Name: "replSetStepUp", Run: n.runReplSetStepUp, Help: "Steps up this node to primary, if it can win an election.",
	}
}

func (n *Node) runReplSetStepUp(ctx context.Context, _ *command.Op) error {
	if _, err := n.setState(); err != nil {
		return err
	}
	return n.Dispatcher.Member.StepUp(ctx)
}
