package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// failPoint is the name of the fail point that there is.
const failPoint = "failCommand"

// configureFailPoint sets the fail point that makes commands fail. The server
// has it only where it was started with enableTestCommands.
func (n *Node) configureFailPoint() *command.Command {
	return &command.Command{
		Name: "configureFailPoint", Place: command.Anywhere, Flags: command.AdminOnly, Help: "modifies the settings of a fail point",
		Fields: command.NewFields("configureFailPoint",
			command.Value(command.String("").Required()), command.Any("mode"), command.Object("data")),
		Run: func(_ context.Context, op *command.Op) error {
			if name := op.Args.Str("configureFailPoint"); name != failPoint {
				return mongoerr.New(mongoerr.FailPointSetFailed, "%s not found", name)
			}
			entered, err := op.Dispatcher.FailCommand.Configure(op.Args.Value("mode"), op.Args.Doc("data"))
			op.Reply.Int64("count", entered)
			return err
		},
	}
}

// enableTestCommands adds the commands that only tests need.
func (n *Node) enableTestCommands() {
	if n.Dispatcher.FailCommand == nil {
		n.Dispatcher.FailCommand = &command.FailPoint{}
		n.Dispatcher.Registry.Register(n.configureFailPoint())
	}
}
