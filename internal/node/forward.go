package node

import (
	"context"
	"errors"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

// forwards reports whether an aggregate has to run on the primary though a driver sends it
// here: it writes ($out, $merge), and this member is a secondary. With access control
// this member cannot log in at the primary: then it runs here, and its first write fails
// with 10107.
func (n *Node) forwards(op *command.Op) bool {
	m := n.Dispatcher.Member
	if m == nil || op.Controlled() || m.Writable() == nil {
		return false
	}
	stages := op.Args.Array("pipeline")
	if len(stages) == 0 || stages[len(stages)-1].Type != bson.TypeDocument {
		return false
	}
	name, _ := stages[len(stages)-1].Doc().First()
	return slices.Contains(writingStages, name)
}

// forwardedArguments are the arguments that this member sets in a forwarded command, or
// leaves out.
var forwardedArguments = map[string]bool{"$db": true, "$readPreference": true, "$clusterTime": true, "lsid": true}

// forward runs op's command on the primary, and returns its reply once this member has
// what the primary has written. Errors: the primary's, 10107 if there is none.
func (n *Node) forward(ctx context.Context, op *command.Op) error {
	m := n.Dispatcher.Member
	st := m.State()
	primary := st.Config.Member(st.Leader)
	if primary == nil || primary.Raft == st.ID {
		return repl.ErrNotPrimary
	}
	to := n.ToPrimary
	to.Address = primary.Host
	conn, err := client.Connect(ctx, to)
	if err != nil {
		return mongoerr.New(mongoerr.HostUnreachable, "the primary %s: %v", primary.Host, err)
	}
	var b bson.Builder
	for name, v := range op.Body.All() {
		if !forwardedArguments[name] {
			b.Value(name, v)
		}
	}
	reply, err := conn.Run(ctx, op.DB, b.Finish())
	if e := (*mongoerr.Error)(nil); err != nil && !errors.As(err, &e) {
		err = mongoerr.New(mongoerr.HostUnreachable, "the primary %s: %v", primary.Host, err)
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return err
	}
	if at := reply.Lookup("operationTime"); at.Type == bson.TypeTimestamp {
		if err := m.WaitTime(ctx, repl.Timestamp(at.Timestamp())); err != nil {
			return err
		}
	}
	for name, v := range reply.All() {
		if name != "ok" && name != "$clusterTime" && name != "operationTime" {
			op.Reply.Value(name, v)
		}
	}
	return nil
}
