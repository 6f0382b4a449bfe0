package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

var saslStartFields = command.NewFields("saslStart", command.String("mechanism").Required(),
	command.OneOf("payload", bson.TypeBinary, bson.TypeString).Required(), command.SafeInt("autoAuthorize"),
	command.Object("options"), command.String("db")).Lenient()

// saslStart begins an authentication. There are no users yet, so every one
// fails.
func (n *Node) saslStart() *command.Command {
	return &command.Command{
		Name: "saslStart", Flags: command.NoAuth | command.Redacted | command.APIv1, Fields: saslStartFields, Help: "First step in a SASL authentication conversation.",
		Run: func(context.Context, *command.Op) error { return errAuthentication },
	}
}
