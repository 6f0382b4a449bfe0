package node

import (
	"encoding/base64"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// conversationID is the id of the one authentication that a connection can
// have under way.
const conversationID = 1

// startAuthentication takes the first step of an authentication, which a hello
// may bring along, and writes the answer.
func (n *Node) startAuthentication(op *command.Op, a *command.Args, db string, speculative bool, b *bson.Builder) error {
	if a.Has("db") {
		db = a.Str("db")
	}
	options, given := a.Struct("options")
	skip := given && options.Bool("skipEmptyExchange")
	c, err := auth.NewConversation(a.Str("mechanism"), skip, func(name string) (*auth.User, error) {
		d, err := n.kept(usersNamespace, auth.UserName{User: name, DB: db}.ID())
		if d == nil || err != nil {
			return nil, err
		}
		return auth.ParseUser(d)
	})
	if err != nil {
		return err
	}
	op.Client.Conversation = &command.Conversation{Conversation: c, DB: db, Speculative: speculative}
	return n.stepAuthentication(op, a.Value("payload"), b)
}

// stepAuthentication takes one step with what the client said.
func (n *Node) stepAuthentication(op *command.Op, payload bson.Value, b *bson.Builder) error {
	c := op.Client.Conversation
	message, err := saslMessage(payload)
	if err != nil {
		return err
	}
	answer, done, err := c.Step(message)
	if err == nil && done {
		err = n.authenticated(op, c)
	}
	if err != nil {
		op.Client.Conversation = nil
		user := ""
		if c.User != nil {
			user = c.User.Name.User
		}
		n.Log.Info("Authentication failed", "c", "ACCESS", "id", 5286307, "client", op.Client.Remote, "isSpeculative", c.Speculative,
			"mechanism", c.Mechanism, "user", user, "db", c.DB, "error", err.Error())
		return err
	}
	b.Int32("conversationId", conversationID).Bool("done", done)
	if payload.Type == bson.TypeString {
		b.String("payload", base64.StdEncoding.EncodeToString([]byte(answer)))
	} else {
		b.Binary("payload", 0, []byte(answer))
	}
	return nil
}

func saslMessage(payload bson.Value) (string, error) {
	if payload.Type == bson.TypeString {
		raw, err := base64.StdEncoding.DecodeString(payload.Str())
		if err != nil {
			return "", mongoerr.New(mongoerr.FailedToParse, "not a valid base64 string")
		}
		return string(raw), nil
	}
	_, raw := payload.Binary()
	return string(raw), nil
}

// authenticated makes the client the user who has proven to be it.
func (n *Node) authenticated(op *command.Op, c *command.Conversation) error {
	op.Client.Conversation = nil
	if was := op.Client.Principal(); was != nil && was.User.Name != c.User.Name {
		if was.User.Name.DB == c.User.Name.DB {
			return mongoerr.New(5626701, "Each client connection may only be authenticated once. Previously authenticated as: %s", was.User.Name)
		}
		return mongoerr.New(5626702, "Client has attempted to authenticate on multiple databases.Already authenticated as: %s", was.User.Name)
	}
	p, err := n.principal(c.User.Name)
	if err != nil {
		return err
	}
	if p == nil {
		return auth.ErrFailed
	}
	if err := p.CheckAddress(op.Client.Remote, op.Client.Local); err != nil {
		return err
	}
	op.Client.SetPrincipal(p)
	n.Log.Info("Successfully authenticated", "c", "ACCESS", "id", 5286306, "client", op.Client.Remote, "isSpeculative", c.Speculative,
		"mechanism", c.Mechanism, "user", c.User.Name.User, "db", c.User.Name.DB)
	return nil
}

// principal resolves what a user may do now; nil where there is none.
func (n *Node) principal(name auth.UserName) (*auth.Principal, error) {
	generation := n.accounts.generation.Load()
	d, err := n.kept(usersNamespace, name.ID())
	if d == nil || err != nil {
		return nil, err
	}
	u, err := auth.ParseUser(d)
	if err != nil {
		return nil, err
	}
	return auth.NewPrincipal(u, n.role, generation)
}
