package command

import (
	"context"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Background is work inside the server that currentOp shows as an operation:
// the TTL monitor, an index build.
type Background struct {
	op *Op
	d  *Dispatcher
}

// BeginBackground shows work under a description ("TTLMonitor") in currentOp, until
// End. kind and ns are what currentOp prints as op and ns; command describes the work
// in its own terms, or is nil. stop is called when someone kills the work, which then
// ends by itself.
func (d *Dispatcher) BeginBackground(desc string, kind OpKind, ns string, command bson.Doc, stop func(err error)) *Background {
	if command == nil {
		command = bson.Empty
	}
	db, _, _ := strings.Cut(ns, ".")
	op := &Op{
		DB: db, ID: d.Clients.nextOpID(), Client: &Client{Desc: desc, Internal: true}, Dispatcher: d,
		Command: &Command{Name: desc, Kind: kind}, Name: desc, NS: ns, Start: time.Now(),
		statement: &statement{kind: kind, command: command},
	}
	op.SetNS(ns)
	op.active.cancel = func(err error) { stop(err) }
	op.Client.current.Store(op)
	d.Clients.Connect(op.Client)
	return &Background{op: op, d: d}
}

// Op is the operation, for its SetProgress, SetNS and SetPlanSummary, and its
// Stats.
func (b *Background) Op() *Op { return b.op }

// End removes the work from currentOp.
func (b *Background) End() { b.d.Clients.Disconnect(b.op.Client) }

// Note writes an entry for the work into the profile of its database, if that is
// profiled, and reports whether to log the work as slow. err is its outcome. The work's Op
// has its Stats by then. Call Note before End.
func (b *Background) Note(ctx context.Context, err error) (slow bool) {
	n := noted{took: time.Since(b.op.Start), err: err}
	v := b.d.Profiler.judge(b.op, n)
	if v.profile {
		b.d.profile(ctx, b.op, n, v.entry)
	}
	return v.log
}
