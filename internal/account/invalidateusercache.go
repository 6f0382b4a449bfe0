package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// invalidateUserCache makes the server resolve users again; there is no
// separate cache.
func (s *Store) invalidateUserCache() *command.Command {
	return &command.Command{
		Name: "invalidateUserCache", Flags: command.AdminOnly, Fields: command.NewFields("invalidateUserCache"),
		Help: "Invalidates the cache of user information", Run: func(context.Context, *command.Op) error { return nil },
	}
}
