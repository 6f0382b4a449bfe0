package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// authenticate is the command for X.509 certificates. Without TLS there are
// none.
func (s *Store) authenticate() *command.Command {
	return &command.Command{
		Name: "authenticate", Flags: command.NoAuth | command.Redacted, Help: "internal",
		Run: func(context.Context, *command.Op) error { return auth.ErrFailed },
	}
}
