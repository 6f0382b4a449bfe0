package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// saslContinue continues an authentication that saslStart began.
func (n *Node) saslContinue() *command.Command {
	return &command.Command{
		Name: "saslContinue", Flags: command.NoAuth | command.Redacted | command.APIv1, Help: "Subsequent steps in a SASL authentication conversation.",
		Run: func(context.Context, *command.Op) error {
			return mongoerr.New(mongoerr.ProtocolError, "No SASL session state found")
		},
	}
}
