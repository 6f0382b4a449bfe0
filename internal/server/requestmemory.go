package server

import (
	"errors"
	"os"
	"time"

	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
)

const (
	// arrivalTime and arrivalRate are how fast a large message has to arrive while
	// others wait for memory: arrivalRate bytes per second, plus arrivalTime for
	// latency.
	arrivalTime = 10 * time.Second
	arrivalRate = 64 << 10
	// lateStep extends the deadline of a late message while no request waits.
	lateStep = 2 * time.Second
)

// arriving is the memory of a connection's request; it is the wire.Memory of its
// reader.
type arriving struct {
	c        *connection
	taken    memory.Request
	size     int  // of the message
	deadline bool // reading has a deadline
}

// errTooEarly closes a connection that sends a large message before authentication.
var errTooEarly = mongoerr.New(mongoerr.ProtocolError,
	"a message of more than %d bytes from a client that has not authenticated", memory.FreeRequest)

// Begin refuses large messages of those who have not authenticated.
func (a *arriving) Begin(n int) error {
	if a.size = n; n <= memory.FreeRequest {
		return nil
	}
	if a.c.server.Options.Security.Authorization && a.c.client.Principal() == nil {
		return errTooEarly
	}
	a.until(arrivalTime + time.Duration(n/arrivalRate)*time.Second)
	return nil
}

// Room takes memory from the budget.
func (a *arriving) Room(n int) error { return a.taken.Set(a.c.ctx, n) }

// Late lets a late message continue as long as no request waits
// for the memory that it has.
func (a *arriving) Late(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || a.c.server.stopping.Load() || a.taken.Wanted() {
		return false
	}
	a.until(lateStep)
	return true
}

// until bounds the time to read.
func (a *arriving) until(d time.Duration) {
	a.deadline = true
	a.limit(time.Now().Add(d))
}

func (a *arriving) limit(at time.Time) {
	_ = a.c.SetReadDeadline(at)
	if a.c.server.stopping.Load() { // keeps the deadline that stop may have set
		_ = a.c.SetReadDeadline(longAgo)
	}
}

// arrived clears the deadline, and reserves the memory to execute f.
func (a *arriving) arrived(f wire.Frame) error {
	if a.deadline {
		a.deadline = false
		a.limit(time.Time{})
	}
	if len(f) <= memory.FreeRequest && f.OpCode() != wire.OpCompressed {
		return nil
	}
	n := f.Unpacked()
	if n > memory.FreeRequest && a.c.server.Options.Security.Authorization && a.c.client.Principal() == nil {
		return &wire.Error{Cause: errTooEarly, Reaction: wire.Close}
	}
	// Twice: once more for the command's own copies.
	if err := a.taken.Set(a.c.ctx, len(f)+n); err != nil {
		return &wire.Error{Cause: mongoerr.From(err), Reaction: wire.Answer}
	}
	return nil
}
