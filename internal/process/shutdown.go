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

// shutdownSecs is the default of timeoutSecs: how long the shutdown of a primary waits
// for a secondary to catch up and take over, and that of a secondary for its clients to go.
const shutdownSecs = 15

// maxShutdownSecs bounds it.
const maxShutdownSecs = 1 << 31

// goneEvery is how often shutdown looks whether clients have gone.
const goneEvery = 50 * time.Millisecond

// shutdownPeriod is how long a primary that shuts down does not stand for election.
const shutdownPeriod = 10 * time.Second

// runShutdown makes a primary hand over first: it waits until another member has caught
// up and takes over. Where none does in time, it fails (262) or, with force, stops all the
// same. A primary that loses its set meanwhile stops, too. Then clients of a member that
// is not the only one go on for the rest of the time, and are told to go elsewhere.
// (Manual: database command shutdown.)
func (p *Process) runShutdown(ctx context.Context, op *command.Op) error {
	if p.LocalhostOnly && !fromHere(op.Client) {
		return mongoerr.New(mongoerr.Unauthorized, "shutdown must run from localhost when running db without auth")
	}
	if p.Shutdown == nil {
		return mongoerr.New(mongoerr.CommandNotSupported, "this server cannot be shut down by a command")
	}
	secs := op.Args.Int64Or("timeoutSecs", shutdownSecs)
	if secs < 0 {
		return mongoerr.New(mongoerr.BadValue, "shutdown timeout must be positive, and not %d", secs)
	}
	timeout := time.Duration(min(secs, maxShutdownSecs)) * time.Second
	until := time.Now().Add(timeout)
	m := op.Dispatcher.Member
	others := false
	if m != nil {
		c := m.State().Config
		others = c != nil && len(c.Members) > 1
	}
	handsOver := others && m.Writable() == nil
	if handsOver {
		err := m.StepDown(ctx, shutdownPeriod, timeout, false)
		if err != nil && !mongoerr.Is(err, mongoerr.NotWritablePrimary) && (!op.Args.Bool("force") || ctx.Err() != nil) {
			return err
		}
	}
	if others {
		letGo(ctx, op, until)
	}
	p.Shutdown(!handsOver)
	op.CloseConnection = true
	return nil
}

// letGo lets clients go on until a time, or until all have gone. They are told that the
// server stops. Meanwhile it does not stand for election.
func letGo(ctx context.Context, op *command.Op, until time.Time) {
	d := op.Dispatcher
	_ = d.Member.Freeze(ctx, time.Until(until)+shutdownPeriod) // it hands over if it is elected all the same
	d.Quiesce(until)
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for time.Now().Before(until) && d.Clients.WorksForOthers(op.Client) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// fromHere reports whether the client is on this machine.
func fromHere(c *command.Client) bool {
	ip := net.ParseIP(c.RemoteHost())
	return c.Internal || c.Remote == command.UnixSocket || ip != nil && ip.IsLoopback()
}
