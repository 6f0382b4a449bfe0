package node

import (
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

// Node is one data-bearing member. The server assembles it; its methods are the
// handlers of its commands.
type Node struct {
	Dispatcher *command.Dispatcher
	Params     *command.Params
	Log        *slog.Logger
	// StartTime is when the server started.
	StartTime time.Time
}

// Register adds the node's commands to r.
func (n *Node) Register(r *command.Registry) {
	n.registerDiagnostic(r)
}

// registerDiagnostic adds the commands about the server, its connections and
// its sessions.
func (n *Node) registerDiagnostic(r *command.Registry) {
	r.Register(
		n.ping(),
	)
}
