package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

var rolesInfoFields = command.NewFields("rolesInfo", command.Value(command.Any("").Required()),
	command.SafeBool("showAuthenticationRestrictions"), command.SafeBool("showBuiltinRoles"),
	command.OneOf("showPrivileges", bson.TypeBool, bson.TypeInt64, bson.TypeInt32, bson.TypeDecimal, bson.TypeDouble, bson.TypeString))

// rolesInfo lists the roles that users defined, of which there are none.
func (n *Node) rolesInfo() *command.Command {
	return &command.Command{
		Name: "rolesInfo", Fields: rolesInfoFields, Help: "Returns information about roles.",
		Run: func(_ context.Context, op *command.Op) error { op.Reply.OpenArray("roles").Close(); return nil },
	}
}
