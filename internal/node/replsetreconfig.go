package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

var replSetReconfigFields = command.NewFields("replSetReconfig", command.Value(command.Object("").Required()), command.SafeBool("force")).Lenient()

// errForce refuses a reconfiguration that could lose acknowledged writes.
var errForce = mongoerr.New(mongoerr.CommandNotSupported, "replSetReconfig with force: true is not supported: it can lose acknowledged writes. "+
	"Bring back a majority of the voting members. If they are lost for good, dump the data of a member that is left, and restore them into a new set")

// replSetReconfig changes the configuration: {replSetReconfig: configuration} with a
// higher version, and at most one voting member more or less. (Manual: database command
// replSetReconfig.)
func (n *Node) replSetReconfig() *command.Command {
	return &command.Command{
		Name: "replSetReconfig", Run: n.runReplSetReconfig,
		Help: "Adjust configuration of a replica set\n{ replSetReconfig : config_object }\nhttp://dochub.mongodb.org/core/replicasetcommands",
	}
}

func (n *Node) runReplSetReconfig(ctx context.Context, op *command.Op) error {
	a, err := command.Parse(op, replSetReconfigFields)
	if err != nil {
		return err
	}
	if a.Bool("force") {
		return errForce
	}
	if _, err := n.setState(); err != nil {
		return err
	}
	c, err := repl.ParseConfig(a.Doc("replSetReconfig"))
	if err != nil {
		return err
	}
	return n.Dispatcher.Member.Reconfigure(ctx, c)
}
