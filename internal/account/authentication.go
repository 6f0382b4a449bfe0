package account

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// conversationID is the id of the one authentication that a connection can have
// in progress.
const conversationID = 1

// The ids of mongod's lines about authentication.
const (
	logAuthenticated    = 5286306
	logNotAuthenticated = 5286307
)

// startAuthentication takes the first step of an authentication, which may be
// part of a hello, and writes the answer.
func (s *Store) startAuthentication(ctx context.Context, op *command.Op, a *command.Args, db string, speculative bool, b *bson.Builder) error {
	if a.Has("db") {
		db = a.Str("db")
	}
	options, given := a.Struct("options")
	skip := given && options.Bool("skipEmptyExchange")
	c, err := auth.NewConversation(a.Str("mechanism"), skip, func(name string) (*auth.User, error) {
		return s.User(ctx, auth.UserName{User: name, DB: db})
	})
	if err != nil {
		return err
	}
	op.Client.Conversation = &command.Conversation{Conversation: c, DB: db, Speculative: speculative}
	return s.stepAuthentication(ctx, op, a.Value("payload"), b)
}

// stepAuthentication takes one step with the client's message. After failed logins
// it delays: before it checks a user's proof, so that a client that does not wait
// for the answer gains nothing, and before it reports that there is no such user.
// A hello is not delayed: it never checks a proof.
func (s *Store) stepAuthentication(ctx context.Context, op *command.Op, payload bson.Value, b *bson.Builder) error {
	c := op.Client.Conversation
	message, err := saslMessage(payload)
	if err != nil {
		return err
	}
	if c.User != nil && !c.Proven() {
		if err := s.failures.Wait(ctx, op.Client.Remote, c.User.Name); err != nil {
			return err
		}
	}
	answer, done, err := c.Step(message)
	if err == nil && done {
		err = s.authenticated(ctx, op, c)
	}
	if err != nil {
		return s.notAuthenticated(ctx, op, c, err)
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

// notAuthenticated ends an authentication that failed, with err, and logs it.
func (s *Store) notAuthenticated(ctx context.Context, op *command.Op, c *command.Conversation, err error) error {
	op.Client.Conversation = nil
	name := auth.UserName{User: c.Name, DB: c.DB}
	e := mongoerr.From(err)
	result := e.Code
	if c.User == nil && result == mongoerr.AuthenticationFailed {
		result = mongoerr.UserNotFound // the log may show what the client must not know
	}
	s.log.InfoContext(ctx, "Failed to authenticate", "c", "ACCESS", "id", logNotAuthenticated, "client", op.Client.Remote, "isSpeculative", c.Speculative,
		"isClusterMember", name == auth.MemberName, "mechanism", c.Mechanism, "user", shownName(c.Name), "db", c.DB,
		"error", result.String()+": "+e.Message, "result", int(result))
	untold := op.Audit("authenticate", loginOf(name, c.Mechanism), result)
	if c.User == nil && !c.Speculative {
		if err := s.failures.Wait(ctx, op.Client.Remote, name); err != nil {
			return err
		}
	}
	if c.User != nil || !c.Speculative {
		s.failures.Failed(op.Client.Remote, name)
	}
	if untold != nil {
		return untold // only now: a log that cannot be written lets nobody guess faster
	}
	return err
}

// loginOf describes a login to auditors.
func loginOf(name auth.UserName, mechanism string) bson.Doc {
	return new(bson.Builder).String("user", shownName(name.User)).String("db", name.DB).String("mechanism", mechanism).Finish()
}

// maxShownName bounds how many bytes of a name given by a stranger are logged.
const maxShownName = 256

func shownName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), maxShownName)], "")
}

// authenticated logs the client in as the user whose proof was checked.
func (s *Store) authenticated(ctx context.Context, op *command.Op, c *command.Conversation) error {
	op.Client.Conversation = nil
	if was := op.Client.Principal(); was != nil && was.User.Name != c.User.Name {
		if was.User.Name.DB == c.User.Name.DB {
			return mongoerr.New(5626701, "Each client connection may only be authenticated once. Previously authenticated as: %s", was.User.Name)
		}
		return mongoerr.New(5626702, "Client has attempted to authenticate on multiple databases.Already authenticated as: %s", was.User.Name)
	}
	p, err := s.Principal(ctx, c.User.Name)
	if err != nil {
		return err
	}
	if p == nil {
		return auth.ErrFailed
	}
	if err := p.CheckAddress(op.Client.Remote, op.Client.Local); err != nil {
		return err
	}
	was := op.Client.Principal()
	op.Client.SetPrincipal(p)
	if err := op.Audit("authenticate", loginOf(c.User.Name, c.Mechanism), 0); err != nil {
		op.Client.SetPrincipal(was)
		return err
	}
	s.failures.Succeeded(op.Client.Remote, c.User.Name)
	s.log.InfoContext(ctx, "Successfully authenticated", "c", "ACCESS", "id", logAuthenticated, "client", op.Client.Remote, "isSpeculative", c.Speculative,
		"isClusterMember", c.User == s.member, "mechanism", c.Mechanism, "user", c.User.Name.User, "db", c.User.Name.DB, "result", 0)
	return nil
}

// User returns a user as it is now; nil if there is none.
func (s *Store) User(ctx context.Context, name auth.UserName) (*auth.User, error) {
	if name == auth.MemberName {
		return s.member, nil
	}
	d, err := s.document(ctx, name)
	if d == nil || err != nil {
		return nil, err
	}
	return auth.ParseUser(d)
}

// document is what is kept of a user, or told by the source; nil if there is none.
func (s *Store) document(ctx context.Context, name auth.UserName) (bson.Doc, error) {
	if name.DB == "" {
		return nil, nil
	}
	if s.source != nil {
		return s.source.User(ctx, name)
	}
	return s.kept(usersNamespace, name.ID())
}

// Principal resolves what a user may do now; nil if there is none.
func (s *Store) Principal(ctx context.Context, name auth.UserName) (*auth.Principal, error) {
	generation := s.generation.Load()
	if name == auth.MemberName {
		if s.member == nil {
			return nil, nil
		}
		return auth.NewPrincipal(s.member, s.role, generation)
	}
	d, err := s.document(ctx, name)
	if d == nil || err != nil {
		return nil, err
	}
	u, err := auth.ParseUser(d)
	if err != nil {
		return nil, err
	}
	if s.source == nil {
		return auth.NewPrincipal(u, s.role, generation)
	}
	resolved, err := auth.ParseResolved(d)
	if err != nil {
		return nil, err
	}
	return auth.ResolvedPrincipal(u, resolved, generation), nil
}

// Hello answers what hello asks about a user, and takes the first step of an
// authentication that is part of it. Where that fails, the client begins again with
// saslStart.
func (s *Store) Hello(ctx context.Context, op *command.Op, name *auth.UserName) error {
	if name != nil {
		u, err := s.User(ctx, *name)
		if err != nil {
			return err
		}
		if u != nil {
			op.Reply.Strings("saslSupportedMechs", u.Mechanisms()...)
		}
	}
	if v := op.Args.Value("speculativeAuthenticate"); v.Type == bson.TypeDocument {
		if answer := s.speculate(ctx, op, v.Doc()); answer != nil {
			op.Reply.Doc("speculativeAuthenticate", answer)
		}
	}
	return nil
}

// speculate takes the first step of an authentication that is part of a hello,
// {saslStart: 1, …}, and returns the answer. A hello never fails because of it:
// where the step fails the answer is nil, and the client begins again with
// saslStart.
func (s *Store) speculate(ctx context.Context, op *command.Op, start bson.Doc) (answer bson.Doc) {
	var b bson.Builder
	fields, begin, db := saslStartFields, s.startAuthentication, "admin"
	switch first, _ := start.First(); first {
	case "saslStart":
	case "authenticate":
		fields, begin, db = authenticateFields, s.authenticateHolder, auth.External
	default:
		return nil
	}
	a, err := command.ParseDoc(fields, start)
	if err != nil {
		return nil
	}
	if err := begin(ctx, op, &a, db, true, &b); err != nil {
		return nil
	}
	return b.Finish()
}
