package node

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var setIndexCommitQuorumFields = command.NewFields("setIndexCommitQuorum", command.CollectionOrUUID(),
	command.ArrayOf("indexNames", command.String("")).Required(),
	command.OneOf("commitQuorum", bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal, bson.TypeString).Required())

// setIndexCommitQuorum sets how many members must have the entries of an index that is
// being built before it is ready: see awaitQuorum.
func (n *Node) setIndexCommitQuorum() *command.Command {
	return &command.Command{
		Name: "setIndexCommitQuorum", Flags: command.TakesWriteConcern, Fields: setIndexCommitQuorumFields,
		Help: "Set the commitQuorum for an index build", Run: n.runSetIndexCommitQuorum,
	}
}

func (n *Node) runSetIndexCommitQuorum(_ context.Context, op *command.Op) error {
	quorum, err := parseCommitQuorum(op.Args.Value("commitQuorum"))
	if err != nil {
		return err
	}
	c, err := n.collection(op)
	if err != nil {
		return err
	}
	if c == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "ns does not exist: %s", op.NS)
	}
	running := n.Catalog.Builds()
	at := slices.IndexFunc(running, func(b catalog.BuildProgress) bool {
		return b.Collection == c.UUID && slices.EqualFunc(b.Indexes, op.Args.Strings("indexNames"), func(ix *catalog.Index, name string) bool { return ix.Name == name })
	})
	if at >= 0 {
		if n.Dispatcher.Member == nil {
			return mongoerr.New(mongoerr.NoReplicationEnabled, "Standalones can't specify commitQuorum")
		}
		if err := n.checkQuorum(quorum); err != nil {
			return err
		}
		n.quorums.set(running[at].ID, quorum, running)
		return nil
	}
	return mongoerr.New(mongoerr.IndexNotFound, "Cannot find an index build on collection '%s' with the provided index names", op.NS)
}
