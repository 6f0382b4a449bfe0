package process

import (
	"context"
	"net"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var shutdownFields = command.NewFields("shutdown", command.SafeBool("force"), command.SafeInt64("timeoutSecs"))

// shutdown stops the server. Without access control, only clients on the same
// machine may.
func (p *Process) shutdown() *command.Command {
	return &command.Command{
		Name: "shutdown", Flags: command.AdminOnly, Fields: shutdownFields, Help: "shutdown the database.", Run: p.runShutdown,
	}
}

// shutdownCatchUpSecs is the default time that the shutdown of a primary waits for a
// secondary to catch up and take over.
const shutdownCatchUpSecs = 15

// maxCatchUpSecs bounds it.
const maxCatchUpSecs = 1 << 31

// shutdownPeriod is how long a primary that shuts down does not stand for election.
const shutdownPeriod = 10 * time.Second

// runShutdown makes a primary hand over first: it waits until another member has caught
// up and takes over. Where none does in time, it fails (262) or, with force, stops all the
// same. A primary that loses its set meanwhile stops, too. (Manual: database command
// shutdown.)
func (p *Process) runShutdown(ctx context.Context, op *command.Op) error {
	if p.LocalhostOnly && !fromHere(op.Client) {
		return mongoerr.New(mongoerr.Unauthorized, "shutdown must run from localhost when running db without auth")
	}
	if p.Shutdown == nil {
		return mongoerr.New(mongoerr.CommandNotSupported, "this server cannot be shut down by a command")
	}
	catchUp := op.Args.Int64Or("timeoutSecs", shutdownCatchUpSecs)
	if catchUp < 0 {
		return mongoerr.New(mongoerr.BadValue, "shutdown timeout must be positive, and not %d", catchUp)
	}
	m := op.Dispatcher.Member
	handsOver := m != nil && m.Writable() == nil && len(m.State().Config.Members) > 1
	if handsOver {
		err := m.StepDown(ctx, shutdownPeriod, time.Duration(min(catchUp, maxCatchUpSecs))*time.Second, false)
		if err != nil && !mongoerr.Is(err, mongoerr.NotWritablePrimary) && (!op.Args.Bool("force") || ctx.Err() != nil) {
			return err
		}
	}
	p.Shutdown(!handsOver)
	op.CloseConnection = true
	return nil
}

// fromHere reports whether the client is on this machine.
func fromHere(c *command.Client) bool {
	ip := net.ParseIP(c.RemoteHost())
	return c.Internal || c.Remote == command.UnixSocket || ip != nil && ip.IsLoopback()
}
