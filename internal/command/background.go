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

// BeginBackground shows work with that description ("TTLMonitor") until End. kind
// and ns are what currentOp prints as op and ns, command is the work's own
// words, or nil. stop is called when someone kills it; the work then ends by
// itself.
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

// End takes the work out of currentOp.
func (b *Background) End() { b.d.Clients.Disconnect(b.op.Client) }

// Note gives the work, which has come to err or nil, an entry in the profile
// of its database where that wants one, and says whether it is to be logged as
// slow. The work's Op has its Stats by then. Call it before End.
func (b *Background) Note(ctx context.Context, err error) (slow bool) {
	n := noted{took: time.Since(b.op.Start), err: err}
	v := b.d.Profiler.judge(b.op, n)
	if v.profile {
		b.d.profile(ctx, b.op, n, v.entry)
	}
	return v.log
}
