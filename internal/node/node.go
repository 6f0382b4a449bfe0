package node

import (
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

// Node is one data-bearing member. The server assembles it; its methods are the
// handlers of its commands.
type Node struct {
	Dispatcher *command.Dispatcher
	Params     *command.Params
	Log        *slog.Logger
	Catalog    *catalog.Catalog
	Exec       *exec.Executor
	// Process is the process around the node; nil where there is none.
	Process Process
	// StartTime is when the server started.
	StartTime time.Time

	knobs *knobs
}

// Register adds the node's commands to r.
func (n *Node) Register(r *command.Registry) {
	n.knobs = newKnobs(n.Params)
	n.registerDiagnostic(r)
	n.registerData(r)
}

// registerData adds the commands that read and write documents.
func (n *Node) registerData(r *command.Registry) {
	r.Register(
		n.find(), n.count(), n.distinct(), n.explain(),
		n.insert(), n.update(), n.delete(), n.findAndModify(), n.bulkWrite(),
	)
}

// registerDiagnostic adds the commands about the server, its connections and
// its sessions.
func (n *Node) registerDiagnostic(r *command.Registry) {
	r.Register(
		n.ping(),
	)
}
