package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// rotateCertificates reads the TLS certificates again; without TLS there are
// none.
func (n *Node) rotateCertificates() *command.Command {
	return &command.Command{
		Name: "rotateCertificates", Flags: command.AdminOnly,
		Fields: command.NewFields("rotateCertificates", command.String("message")),
		Help:   "Rotates the server's TLS certificates", Run: func(context.Context, *command.Op) error { return nil },
	}
}
