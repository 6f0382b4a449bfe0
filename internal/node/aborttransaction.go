package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// abortTransaction ends a transaction without effect. A standalone has no
// transactions, so there is never one to end.
func (n *Node) abortTransaction() *command.Command {
	return &command.Command{
		Name: "abortTransaction", Flags: command.AdminOnly | command.TakesWriteConcern | command.Transaction | command.APIv1,
		Fields: command.NewFields("abortTransaction", command.Object("recoveryToken")), Help: "Aborts a transaction",
		Run: func(context.Context, *command.Op) error {
			return mongoerr.New(mongoerr.CommandFailed, "abortTransaction must be run within a transaction")
		},
	}
}
