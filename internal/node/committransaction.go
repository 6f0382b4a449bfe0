package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// commitTransaction commits a transaction. (Manual: database command
// commitTransaction.)
func (n *Node) commitTransaction() *command.Command {
	return &command.Command{
		Name: "commitTransaction", Flags: command.AdminOnly | command.Writes | command.TakesWriteConcern | command.Transaction | command.APIv1,
		Fields: command.NewFields("commitTransaction", command.Object("recoveryToken"), command.Timestamp("commitTimestamp")),
		Help:   "Commits a transaction",
		Run: func(ctx context.Context, op *command.Op) error {
			if op.InTransaction() {
				return op.CommitTransaction(ctx)
			}
			return mongoerr.New(mongoerr.CommandFailed, "commitTransaction must be run within a transaction")
		},
	}
}
