package node

import (
	"context"
	"net"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var shutdownFields = command.NewFields("shutdown", command.SafeBool("force"), command.SafeInt64("timeoutSecs"))

// shutdown asks the server to stop. While nobody authenticates, only clients on
// the same machine may.
func (n *Node) shutdown() *command.Command {
	return &command.Command{
		Name: "shutdown", Flags: command.AdminOnly, Fields: shutdownFields, Help: "shutdown the database.", Run: n.runShutdown,
	}
}

func (n *Node) runShutdown(_ context.Context, op *command.Op) error {
	if n.Process.LocalhostOnly && !fromHere(op.Client) {
		return mongoerr.New(mongoerr.Unauthorized, "shutdown must run from localhost when running db without auth")
	}
	if n.Process.Shutdown == nil {
		return mongoerr.New(mongoerr.CommandNotSupported, "this server is not stopped by command")
	}
	n.Process.Shutdown()
	op.CloseConnection = true
	return nil
}

// fromHere says whether the client is on this machine.
func fromHere(c *command.Client) bool {
	ip := net.ParseIP(c.RemoteHost())
	return c.Internal || c.Remote == command.UnixSocket || ip != nil && ip.IsLoopback()
}
