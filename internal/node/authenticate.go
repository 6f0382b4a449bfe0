package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// errAuthentication says no more than it must.
var errAuthentication = mongoerr.New(mongoerr.AuthenticationFailed, "Authentication failed.")

// authenticate is how X.509 certificates are presented. There are no users yet
// that one could name.
func (n *Node) authenticate() *command.Command {
	return &command.Command{
		Name: "authenticate", Flags: command.NoAuth | command.Redacted, Help: "internal",
		Run: func(context.Context, *command.Op) error { return errAuthentication },
	}
}
