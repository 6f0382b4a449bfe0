package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var saslContinueFields = command.NewFields("saslContinue", command.SafeInt("conversationId").Required(),
	command.OneOf("payload", bson.TypeBinary, bson.TypeString).Required()).Lenient()

// saslContinue continues an authentication that saslStart began.
func (s *Store) saslContinue() *command.Command {
	return &command.Command{
		Name: "saslContinue", Flags: command.NoAuth | command.Redacted | command.APIv1, Fields: saslContinueFields,
		Help: "Subsequent steps in a SASL authentication conversation.",
		Run: func(ctx context.Context, op *command.Op) error {
			c := op.Client.Conversation
			switch {
			case c == nil:
				return mongoerr.New(mongoerr.ProtocolError, "No SASL session state found")
			case c.DB != op.DB:
				return mongoerr.New(mongoerr.ProtocolError, "Attempt to switch database target during SASL authentication.")
			case op.Args.Int("conversationId") != conversationID:
				return mongoerr.New(mongoerr.ProtocolError, "sasl: Mismatched conversation id")
			}
			return s.stepAuthentication(ctx, op, op.Args.Value("payload"), op.Reply)
		},
	}
}
