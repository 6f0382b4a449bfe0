package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// ping replies ok, whatever the server is doing.
func (p *Process) ping() *command.Command {
	return &command.Command{
		Name:   "ping",
		Flags:  command.NoAuth | command.APIv1 | command.Quiet,
		Fields: command.NewFields("ping"),
		Help:   "a way to check that the server is alive. responds immediately even if server is in a db lock.",
		Run:    func(context.Context, *command.Op) error { return nil },
	}
}
