package client

import (
	"cmp"
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Login is a user to log in as.
type Login struct {
	User, Password string
	// Second is another password, to try where the first is refused; "" for none.
	Second string
	// Source is the user's database; "" for admin.
	Source string
	// Mechanism is auth.ScramSHA256 or auth.ScramSHA1, "" for the strongest that the user
	// has, or auth.X509: then the certificate says who it is.
	Mechanism string
}

// Member is the login of a member of a cluster at another one, with one of the keys that it
// has, at most two; nil if there is none.
func Member(keys []string) *Login {
	if len(keys) == 0 {
		return nil
	}
	l := &Login{User: auth.MemberName.User, Source: auth.MemberName.DB, Password: keys[0], Mechanism: auth.ScramSHA256}
	if len(keys) > 1 {
		l.Second = keys[1]
	}
	return l
}

// ByCertificate is the login of a member that shows its certificate.
var ByCertificate = &Login{Mechanism: auth.X509}

func (l *Login) source() string { return cmp.Or(l.Source, "admin") }

// maxLoginSteps bounds the steps of a login: no correct server needs more.
const maxLoginSteps = 4

// login authenticates the client to the server, and the server to the client.
// Errors: 18.
func (c *Conn) login(ctx context.Context, l *Login) error {
	name := cmp.Or(l.Mechanism, c.strongest())
	if name == auth.X509 {
		_, err := c.Run(ctx, auth.External, new(bson.Builder).Int32("authenticate", 1).String("mechanism", name).Finish())
		return err
	}
	err := c.prove(ctx, l, name, l.Password)
	if l.Second != "" && mongoerr.Is(err, mongoerr.AuthenticationFailed) {
		err = c.prove(ctx, l, name, l.Second)
	}
	return err
}

// prove authenticates with a password. Errors: 18.
func (c *Conn) prove(ctx context.Context, l *Login, name, password string) error {
	prover, err := auth.NewProver(name, auth.Password{User: l.User, Text: password})
	if err != nil {
		return err
	}
	message, err := prover.Step("")
	if err != nil {
		return err
	}
	reply, err := c.Run(ctx, l.source(), new(bson.Builder).Int32("saslStart", 1).String("mechanism", name).Binary("payload", 0, []byte(message)).
		OpenDoc("options").Bool("skipEmptyExchange", true).Close().Finish())
	for range maxLoginSteps {
		if err != nil {
			return err
		}
		challenge := reply.Lookup("payload")
		if challenge.Type != bson.TypeBinary {
			break
		}
		_, payload := challenge.Binary()
		done := reply.Lookup("done").Truthy()
		if !prover.Done() {
			if message, err = prover.Step(string(payload)); err != nil {
				return err
			}
		} else {
			message = ""
		}
		if done {
			if !prover.Done() { // the server has not proven that it has the user's key
				break
			}
			return nil
		}
		reply, err = c.Run(ctx, l.source(), new(bson.Builder).Int32("saslContinue", 1).Value("conversationId", reply.Lookup("conversationId")).
			Binary("payload", 0, []byte(message)).Finish())
	}
	return mongoerr.New(mongoerr.AuthenticationFailed, "the login of %s did not complete", l.User)
}

// strongest returns the strongest of the mechanisms that hello listed for the user.
// (Specification: "Driver Authentication", "Defaults".)
func (c *Conn) strongest() string {
	if v := c.hello.Lookup("saslSupportedMechs"); v.Type == bson.TypeArray {
		for name := range v.Doc().Values() {
			if name.Type == bson.TypeString && name.Str() == auth.ScramSHA256 {
				return auth.ScramSHA256
			}
		}
	}
	return auth.ScramSHA1
}
