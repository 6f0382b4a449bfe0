package node

import (
	"context"
	"log/slog"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/process"
)

// CommandsOfRouters returns the commands that routers have as well, and answer themselves: about
// search indexes, profile, logApplicationMessage, getDiagnosticData, and about connections to the
// sets that sets returns.
func CommandsOfRouters(d *command.Dispatcher, p process.Process, sets func() []*client.Set, log *slog.Logger) []*command.Command {
	n := &Node{Dispatcher: d, Process: p, Sets: sets, Log: log}
	profile := n.profile()
	profile.Run = func(ctx context.Context, op *command.Op) error {
		if level := op.Args.Int("profile"); level != 0 && level != -1 { // there is no place for entries
			return mongoerr.New(mongoerr.BadValue, "Profiling is not supported on a router: the level must be 0 or -1, with which slowms, sampleRate and filter are set")
		}
		return n.runProfile(ctx, op)
	}
	return append(SearchIndexCommands(), profile, n.logApplicationMessage(), n.getDiagnosticData(), n.connPoolStats(), n.dropConnections())
}
