package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// prepareTransaction makes this shard's part of a transaction ready for a decision of the
// coordinator, a shard (docs/rfcs/0029-transactions-over-shards.md).
func (n *Node) prepareTransaction() *command.Command {
	return &command.Command{
		Name: "prepareTransaction", Flags: command.AdminOnly | command.Writes | command.TakesWriteConcern | command.Transaction,
		Fields: command.NewFields("prepareTransaction", command.String("coordinator").Required()),
		Help:   "Prepares a transaction on a shard; internal to a cluster",
		Run: func(ctx context.Context, op *command.Op) error {
			if op.InTransaction() {
				return op.PrepareTransaction(ctx)
			}
			return mongoerr.New(mongoerr.CommandFailed, "prepareTransaction must be run within a transaction")
		},
	}
}
