package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// features returns the features that the server was built with.
func (p *Process) features() *command.Command {
	return &command.Command{
		Name: "features", Help: "return build level feature settings",
		Run: func(_ context.Context, op *command.Op) error { op.Reply.Int32("oidMachine", 0); return nil },
	}
}
