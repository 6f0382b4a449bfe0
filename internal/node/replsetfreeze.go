package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var replSetFreezeFields = command.NewFields("replSetFreeze", command.Value(command.SafeInt64("").Required())).Lenient()

// replSetFreeze keeps a secondary from standing for election for so many seconds; 0
// ends that. (Manual: database command replSetFreeze.)
func (n *Node) replSetFreeze() *command.Command {
	return &command.Command{
		Name: "replSetFreeze", Run: n.runReplSetFreeze,
		Help: "{ replSetFreeze : <seconds> }\nPrevents a node from attempting to become primary for the specified number of seconds. " +
			"Must be run directly against a secondary node.\nhttp://dochub.mongodb.org/core/replicasetcommands",
	}
}

func (n *Node) runReplSetFreeze(ctx context.Context, op *command.Op) error {
	a, err := command.Parse(op, replSetFreezeFields)
	if err != nil {
		return err
	}
	secs := a.Int64("replSetFreeze")
	if secs < 0 {
		return mongoerr.New(mongoerr.BadValue, "seconds to freeze must be positive, and not %d", secs)
	}
	st, err := n.setState()
	if err != nil {
		return err
	}
	if st.Primary {
		return mongoerr.New(mongoerr.NotSecondary, "cannot freeze node when primary or running for election. state: Primary")
	}
	switch secs {
	case 0:
		op.Reply.String("info", "unfreezing")
	case 1:
		op.Reply.String("warning", "you really want to freeze for only 1 second?")
	}
	return n.Dispatcher.Member.Freeze(ctx, seconds(secs))
}
