package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var setIndexCommitQuorumFields = command.NewFields("setIndexCommitQuorum", command.CollectionOrUUID(),
	command.ArrayOf("indexNames", command.String("")).Required(),
	command.OneOf("commitQuorum", bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal, bson.TypeString).Required())

// setIndexCommitQuorum sets how many members must have built an index before it
// is ready. Builds here wait for no other member, so no build is ever found.
func (n *Node) setIndexCommitQuorum() *command.Command {
	return &command.Command{
		Name: "setIndexCommitQuorum", Flags: command.TakesWriteConcern, Fields: setIndexCommitQuorumFields,
		Help: "Set the commitQuorum for an index build", Run: n.runSetIndexCommitQuorum,
	}
}

func (n *Node) runSetIndexCommitQuorum(_ context.Context, op *command.Op) error {
	c, err := n.collection(op)
	if err != nil {
		return err
	}
	if c == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "ns does not exist: %s", op.NS)
	}
	return mongoerr.New(mongoerr.IndexNotFound, "Cannot find an index build on collection '%s' with the provided index names", op.NS)
}
