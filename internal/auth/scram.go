package auth

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"slices"

	"github.com/xdg-go/scram"
	"github.com/xdg-go/stringprep"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// The mechanisms that users authenticate with.
const (
	ScramSHA1   = "SCRAM-SHA-1"
	ScramSHA256 = "SCRAM-SHA-256"
	// X509 is that of who shows a certificate (command authenticate), without any password.
	X509 = "MONGODB-X509"
)

// mechanism is one of them. (RFC 5802, RFC 7677; SHA-1 takes MongoDB's digest
// of the password, SHA-256 the password as SASLprep makes it.)
type mechanism struct {
	name     string
	hash     scram.HashGeneratorFcn
	new      func() hash.Hash
	saltSize int
}

var mechanisms = []mechanism{
	{ScramSHA256, scram.SHA256, sha256.New, 28},
	{ScramSHA1, scram.SHA1, sha1.New, 16},
}

// MechanismNames lists the mechanisms, the strongest first.
func MechanismNames() []string { return []string{ScramSHA256, ScramSHA1} }

func findMechanism(name string) *mechanism {
	for i := range mechanisms {
		if mechanisms[i].name == name {
			return &mechanisms[i]
		}
	}
	return nil
}

// Password is what credentials are made of.
type Password struct {
	User, Text string
	// Digested says that Text is MongoDB's digest of name and password already.
	Digested bool
	// Mechanisms to make credentials for; nil for all.
	Mechanisms []string
	// Iterations of each mechanism.
	Iterations func(mechanism string) int
}

// Credentials makes the document credentials of a user. Errors: code 2 for a
// mechanism that is none, or that needs the password itself.
func (p Password) Credentials() (bson.Doc, error) {
	return p.salted(func(size int) []byte {
		salt := make([]byte, size)
		_, _ = rand.Read(salt) // it never fails
		return salt
	})
}

// salted is Credentials with the salts given.
func (p Password) salted(salts func(size int) []byte) (bson.Doc, error) {
	for _, name := range p.Mechanisms {
		if findMechanism(name) == nil {
			return nil, mongoerr.New(mongoerr.BadValue, "Unknown auth mechanism '%s'", name)
		}
	}
	var b bson.Builder
	for _, name := range []string{ScramSHA1, ScramSHA256} {
		if p.Mechanisms != nil && !slices.Contains(p.Mechanisms, name) {
			continue
		}
		text, err := p.secret(name)
		if err != nil {
			return nil, err
		}
		m := findMechanism(name)
		salt := salts(m.saltSize)
		n := p.Iterations(name)
		salted, err := pbkdf2.Key(m.new, text, salt, n, m.new().Size())
		if err != nil {
			return nil, err
		}
		stored := m.new()
		stored.Write(m.mac(salted, "Client Key"))
		encode := base64.StdEncoding.EncodeToString
		b.OpenDoc(name).Int32("iterationCount", int32(n)).String("salt", encode(salt)).
			String("storedKey", encode(stored.Sum(nil))).String("serverKey", encode(m.mac(salted, "Server Key"))).Close()
	}
	return b.Finish(), nil
}

func (m *mechanism) mac(key []byte, text string) []byte {
	h := hmac.New(m.new, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// secret is what the mechanism salts.
func (p Password) secret(mechanism string) (string, error) {
	switch {
	case mechanism == ScramSHA1 && p.Digested:
		return p.Text, nil
	case mechanism == ScramSHA1:
		sum := md5.Sum([]byte(p.User + ":mongo:" + p.Text))
		return hex.EncodeToString(sum[:]), nil
	case p.Digested:
		return "", mongoerr.New(mongoerr.BadValue, "Use of SCRAM-SHA-256 requires undigested passwords")
	}
	text, err := stringprep.SASLprep.Prepare(p.Text)
	if err != nil {
		return "", mongoerr.New(50692, "Error preflighting normalization: U_STRINGPREP_PROHIBITED_ERROR")
	}
	return text, nil
}

// ErrFailed gives away no details.
var ErrFailed = mongoerr.New(mongoerr.AuthenticationFailed, "Authentication failed.")

// Conversation is one authentication that goes on.
type Conversation struct {
	// Mechanism is what it uses.
	Mechanism string
	// Name is who the client says to be, known or not, and User who that is, once
	// the first step is done.
	Name string
	User *User

	scram *scram.ServerConversation
	// second goes along with the user's Second credentials until it is known which the
	// client has; nil for none.
	second    *scram.ServerConversation
	skipEmpty bool
	proven    bool
}

// NewConversation begins an authentication; lookup finds a user by name, or
// returns nil. skipEmptyExchange leaves out the last exchange, which says
// nothing. Errors: code 334 for a mechanism that there is not.
func NewConversation(mechanism string, skipEmptyExchange bool, lookup func(name string) (*User, error)) (*Conversation, error) {
	m := findMechanism(mechanism)
	if m == nil {
		return nil, mongoerr.New(mongoerr.MechanismUnavailable, "Received authentication for mechanism %s which is unknown or not enabled", mechanism)
	}
	c := &Conversation{Mechanism: mechanism, skipEmpty: skipEmptyExchange}
	server, err := m.hash.NewServer(func(name string) (scram.StoredCredentials, error) {
		c.Name = name
		u, err := lookup(name)
		if err != nil {
			return scram.StoredCredentials{}, err
		}
		if u == nil {
			return scram.StoredCredentials{}, errors.New("no such user")
		}
		c.User = u
		return storedCredentials(u.Credentials.Lookup(mechanism).Doc())
	})
	if err != nil {
		return nil, err
	}
	second, err := m.hash.NewServer(func(string) (scram.StoredCredentials, error) {
		if c.User == nil {
			return scram.StoredCredentials{}, errors.New("no such user")
		}
		return storedCredentials(c.User.Second.Lookup(mechanism).Doc())
	})
	if err != nil {
		return nil, err
	}
	nonce := rand.Text() // the same for both: what the client is told is one message
	once := func() string { return nonce }
	c.scram, c.second = server.WithNonceGenerator(once).NewConversation(), second.WithNonceGenerator(once).NewConversation()
	return c, nil
}

// Proved is an authentication of which the proof came before: a certificate with the name of
// the user.
func Proved(mechanism, name string) *Conversation {
	return &Conversation{Mechanism: mechanism, Name: name, proven: true}
}

// Proven says that the client has proven to be the user; what follows says nothing.
func (c *Conversation) Proven() bool { return c.proven }

// Step takes what the client said and returns what to answer; done says that
// the user is who it says to be. Errors: ErrFailed.
func (c *Conversation) Step(message string) (answer string, done bool, err error) {
	if c.proven { // whatever the client says once more, as mongod: old drivers do say something
		return "", true, nil
	}
	answer, err = c.scram.Step(message)
	if c.second != nil {
		other, failed := c.second.Step(message)
		switch {
		case failed != nil:
			c.second = nil
		case err != nil:
			answer, err, c.scram, c.second = other, nil, c.second, nil
		}
	}
	if err != nil {
		return "", false, ErrFailed
	}
	c.proven = c.scram.Valid()
	if c.scram.Done() && !c.proven {
		return "", false, ErrFailed
	}
	return answer, c.proven && c.skipEmpty, nil
}

// Knows reports whether a password is the user's. It takes milliseconds. It is for those who
// send the password itself.
func (u *User) Knows(password string) bool {
	for _, m := range mechanisms {
		stored, err := storedCredentials(u.Credentials.Lookup(m.name).Doc())
		if err != nil {
			continue
		}
		text, err := (Password{User: u.Name.User, Text: password}).secret(m.name)
		if err != nil {
			return false
		}
		salted, err := pbkdf2.Key(m.new, text, []byte(stored.Salt), stored.Iters, m.new().Size())
		if err != nil {
			return false
		}
		sum := m.new()
		sum.Write(m.mac(salted, "Client Key"))
		return hmac.Equal(sum.Sum(nil), stored.StoredKey)
	}
	return false
}

func storedCredentials(d bson.Doc) (scram.StoredCredentials, error) {
	var out scram.StoredCredentials
	n := bson.ClampToInt64(d.Lookup("iterationCount"))
	salt, err1 := base64.StdEncoding.DecodeString(text(d.Lookup("salt")))
	stored, err2 := base64.StdEncoding.DecodeString(text(d.Lookup("storedKey")))
	server, err3 := base64.StdEncoding.DecodeString(text(d.Lookup("serverKey")))
	if err := errors.Join(err1, err2, err3); err != nil {
		return out, err
	}
	if n < 1 || len(salt) == 0 || len(stored) == 0 {
		return out, errors.New("no credentials for the mechanism")
	}
	out.Salt, out.Iters = string(salt), int(n)
	out.StoredKey, out.ServerKey = stored, server
	return out, nil
}
