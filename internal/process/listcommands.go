package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// listCommands lists all commands.
func (p *Process) listCommands() *command.Command {
	return &command.Command{
		Name: "listCommands", Flags: command.NoAuth, Help: "get a list of all db commands", Run: p.runListCommands,
	}
}

func (p *Process) runListCommands(_ context.Context, op *command.Op) error {
	b := op.Reply.OpenDoc("commands")
	for _, c := range op.Dispatcher.Registry.All() {
		b.OpenDoc(c.Name).String("help", c.Help).Bool("requiresAuth", c.Flags&command.NoAuth == 0).
			Bool("secondaryOk", c.Place != command.OnPrimary).Bool("adminOnly", c.Flags&command.AdminOnly != 0)
		if c.Flags&command.APIv1 != 0 {
			b.Strings("apiVersions", "1")
		} else {
			b.OpenArray("apiVersions").Close()
		}
		b.OpenArray("deprecatedApiVersions").Close().Close()
	}
	b.Close()
	return nil
}
