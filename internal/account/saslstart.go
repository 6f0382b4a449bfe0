package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

var saslStartFields = command.NewFields("saslStart", command.String("mechanism").Required(),
	command.OneOf("payload", bson.TypeBinary, bson.TypeString).Required(), command.SafeInt("autoAuthorize"),
	command.Struct("options", command.NewFields("options", command.SafeBool("skipEmptyExchange")).Lenient()), command.String("db")).Lenient()

// saslStart begins an authentication.
func (s *Store) saslStart() *command.Command {
	return &command.Command{
		Name: "saslStart", Flags: command.NoAuth | command.Redacted | command.APIv1, Fields: saslStartFields,
		Help: "First step in a SASL authentication conversation.",
		Run: func(ctx context.Context, op *command.Op) error {
			return s.startAuthentication(ctx, op, &op.Args, op.DB, false, op.Reply)
		},
	}
}
