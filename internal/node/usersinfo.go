package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

var usersInfoFields = command.NewFields("usersInfo", command.Value(command.Any("").Required()),
	command.SafeBool("showPrivileges"), command.SafeBool("showCredentials"), command.SafeBool("showCustomData"),
	command.SafeBool("showAuthenticationRestrictions"), command.Object("filter"))

// usersInfo lists users, of which there are none.
func (n *Node) usersInfo() *command.Command {
	return &command.Command{
		Name: "usersInfo", Fields: usersInfoFields, Help: "Returns information about users.",
		Run: func(_ context.Context, op *command.Op) error { op.Reply.OpenArray("users").Close(); return nil },
	}
}
