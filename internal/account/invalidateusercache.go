package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// invalidateUserCache makes the server read users anew; it keeps none apart.
func (s *Store) invalidateUserCache() *command.Command {
	return &command.Command{
		Name: "invalidateUserCache", Flags: command.AdminOnly, Fields: command.NewFields("invalidateUserCache"),
		Help: "Invalidates the cache of user information", Run: func(context.Context, *command.Op) error { return nil },
	}
}
