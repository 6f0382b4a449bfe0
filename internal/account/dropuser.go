package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// dropUser removes a user.
func (s *Store) dropUser() *command.Command {
	return accountCommand("dropUser", "Drops a single user.", command.NewFields("dropUser", command.Value(command.String("").Required())),
		func(ctx context.Context, op *command.Op) error {
			name := argumentUser(op)
			return s.changeAccounts(ctx, func(c *change) error {
				return c.remove(usersNamespace, bson.String(name.ID()), mongoerr.New(mongoerr.UserNotFound, "User '%s' not found", name))
			})
		})
}
