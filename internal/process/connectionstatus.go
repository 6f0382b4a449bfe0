package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

var connectionStatusFields = command.NewFields("connectionStatus", command.SafeBool("showPrivileges"))

// connectionStatus returns the users that the client has authenticated as.
func (p *Process) connectionStatus() *command.Command {
	return &command.Command{
		Name: "connectionStatus", Flags: command.NoAuth | command.APIv1, Fields: connectionStatusFields,
		Help: "Returns connection-specific information such as logged-in users and their roles", Run: p.runConnectionStatus,
	}
}

func (p *Process) runConnectionStatus(_ context.Context, op *command.Op) error {
	b := op.Reply.OpenDoc("authInfo").OpenArray("authenticatedUsers")
	who := op.Client.Principal()
	if who == nil {
		who = &auth.Principal{}
	} else {
		b.OpenDoc("0")
		who.User.Name.Write(b)
		b.Close()
	}
	auth.WriteRoles(b.Close(), "authenticatedUserRoles", who.Roles)
	if op.Args.Bool("showPrivileges") {
		who.Privileges.Write(b, "authenticatedUserPrivileges")
	}
	id := op.Client.UUID()
	b.Close().Binary("uuid", 4, id[:])
	return nil
}
