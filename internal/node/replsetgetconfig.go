package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var replSetGetConfigFields = command.NewFields("replSetGetConfig", command.Bool("commitmentStatus")).Lenient()

// replSetGetConfig answers with the set's configuration. (Manual: database command
// replSetGetConfig.)
func (n *Node) replSetGetConfig() *command.Command {
	return &command.Command{
		Name: "replSetGetConfig", Run: n.runReplSetGetConfig,
		Help: "Returns the current replica set configuration\n{ replSetGetConfig : 1 }",
	}
}

func (n *Node) runReplSetGetConfig(_ context.Context, op *command.Op) error {
	a, err := command.Parse(op, replSetGetConfigFields)
	if err != nil {
		return err
	}
	st, err := n.setState()
	if err != nil {
		return err
	}
	if a.Bool("commitmentStatus") {
		if !st.Writable {
			return mongoerr.New(mongoerr.NotWritablePrimary, "commitmentStatus is only supported on primary.")
		}
		// A configuration takes effect by being committed.
		op.Reply.Doc("config", st.Config.Shown()).Bool("commitmentStatus", true)
		return nil
	}
	op.Reply.Doc("config", st.Config.Shown())
	return nil
}
