package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// DecisionsNamespace has the decisions of the transactions over shards that this one coordinates.
var DecisionsNamespace = schema.Namespace{DB: "config", Coll: "transaction_coordinators"}

// prepareTransaction makes this shard's part of a transaction ready for a decision of the
// coordinator, a shard (docs/rfcs/0029-transactions-over-shards.md). Its own part, own: true, is
// committed by the unit that stores the decision: so no DDL is done there until then.
func (n *Node) prepareTransaction() *command.Command {
	return &command.Command{
		Name: "prepareTransaction", Flags: command.AdminOnly | command.Writes | command.TakesWriteConcern | command.Transaction,
		Fields: command.NewFields("prepareTransaction", command.String("coordinator").Required(), command.Bool("own")),
		Help:   "Prepares a transaction on a shard; internal to a cluster",
		Run: func(ctx context.Context, op *command.Op) error {
			if op.InTransaction() {
				var beside *catalog.Collection
				if op.Args.Bool("own") {
					beside = n.Catalog.Lookup(DecisionsNamespace)
				}
				return op.PrepareTransaction(ctx, beside)
			}
			return mongoerr.New(mongoerr.CommandFailed, "prepareTransaction must be run within a transaction")
		},
	}
}
