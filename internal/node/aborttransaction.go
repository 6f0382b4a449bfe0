package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// abortTransaction ends a transaction without effect. (Manual: database command
// abortTransaction.)
func (n *Node) abortTransaction() *command.Command {
	return &command.Command{
		Name: "abortTransaction", Flags: command.AdminOnly | command.Writes | command.TakesWriteConcern | command.Transaction | command.APIv1,
		Fields: command.NewFields("abortTransaction", command.Object("recoveryToken"), command.String("coordinator")), Help: "Aborts a transaction",
		Run: func(ctx context.Context, op *command.Op) error {
			if op.InTransaction() {
				return op.AbortTransaction(ctx)
			}
			return mongoerr.New(mongoerr.CommandFailed, "abortTransaction must be run within a transaction")
		},
	}
}
