package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// commitTransaction commits a transaction. A standalone has no transactions, so
// there is never one to commit.
func (n *Node) commitTransaction() *command.Command {
	return &command.Command{
		Name: "commitTransaction", Flags: command.AdminOnly | command.TakesWriteConcern | command.Transaction | command.APIv1,
		Fields: command.NewFields("commitTransaction", command.Object("recoveryToken"), command.Timestamp("commitTimestamp")),
		Help:   "Commits a transaction",
		Run: func(context.Context, *command.Op) error {
			return mongoerr.New(mongoerr.CommandFailed, "commitTransaction must be run within a transaction")
		},
	}
}
