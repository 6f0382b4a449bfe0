package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

var connectionStatusFields = command.NewFields("connectionStatus", command.SafeBool("showPrivileges"))

// connectionStatus says who the client has authenticated as.
func (n *Node) connectionStatus() *command.Command {
	return &command.Command{
		Name: "connectionStatus", Flags: command.NoAuth | command.APIv1, Fields: connectionStatusFields,
		Help: "Returns connection-specific information such as logged-in users and their roles", Run: n.runConnectionStatus,
	}
}

func (n *Node) runConnectionStatus(_ context.Context, op *command.Op) error {
	b := op.Reply.OpenDoc("authInfo").OpenArray("authenticatedUsers").Close().OpenArray("authenticatedUserRoles").Close()
	if op.Args.Bool("showPrivileges") {
		b.OpenArray("authenticatedUserPrivileges").Close()
	}
	id := op.Client.UUID()
	b.Close().Binary("uuid", 4, id[:])
	return nil
}
