package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var authenticateFields = command.NewFields("authenticate", command.String("mechanism").Required(), command.String("user"), command.String("db")).Lenient()

// authenticate logs a client in by the certificate that it has shown: {authenticate: 1,
// mechanism: "MONGODB-X509", user}, on $external, where user may be left out. Reply: {dbname,
// user}. Errors: 334 for another mechanism, 17 for another database or a connection without
// TLS, 18. (Manual: "Use x.509 Certificates to Authenticate Clients".)
func (s *Store) authenticate() *command.Command {
	return &command.Command{
		Name: "authenticate", Flags: command.NoAuth | command.Redacted | command.APIv1, Fields: authenticateFields, Help: "internal",
		Run: func(ctx context.Context, op *command.Op) error {
			return s.authenticateHolder(ctx, op, &op.Args, op.DB, false, op.Reply)
		},
	}
}

// authenticateHolder logs in the holder of the client's certificate.
func (s *Store) authenticateHolder(ctx context.Context, op *command.Op, a *command.Args, db string, speculative bool, b *bson.Builder) error {
	holder := op.Client.Holder
	switch {
	case a.Str("mechanism") != auth.X509:
		return mongoerr.New(mongoerr.MechanismUnavailable, "Unsupported mechanism: %s", a.Str("mechanism"))
	case db != auth.External:
		return mongoerr.New(mongoerr.ProtocolError, "X.509 authentication must always use the $external database.")
	case !op.Client.Encrypted:
		return mongoerr.New(mongoerr.ProtocolError, "SSL support is required for the MONGODB-X509 mechanism.")
	}
	c := &command.Conversation{Conversation: auth.Proved(auth.X509, holder.Subject), DB: db, Speculative: speculative}
	if err := s.logHolderIn(ctx, op, c, a.Str("user")); err != nil {
		return s.notAuthenticated(ctx, op, c, err)
	}
	b.String("dbname", db).String("user", holder.Subject)
	return nil
}

// logHolderIn logs in as the user with the name of the certificate's holder, or as a member.
func (s *Store) logHolderIn(ctx context.Context, op *command.Op, c *command.Conversation, user string) (err error) {
	holder := op.Client.Holder
	if holder.Subject == "" || user != "" && user != holder.Subject {
		return auth.ErrFailed
	}
	if s.byCertificate && holder.Member {
		c.User = s.member
	} else if c.User, err = s.User(ctx, auth.UserName{User: holder.Subject, DB: auth.External}); err != nil {
		return err
	}
	if c.User == nil {
		return auth.ErrFailed
	}
	return s.authenticated(ctx, op, c)
}
