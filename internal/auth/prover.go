package auth

import (
	"github.com/xdg-go/scram"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// minIterations is the least that a server may ask the salting of a password
// for: with fewer it would be easier to guess.
const minIterations = 4096

// Prover is the client's side of an authentication.
type Prover struct{ scram *scram.ClientConversation }

// NewProver begins to prove that the client knows a password. Errors: 2 for a
// mechanism that is none, or that needs the password itself.
func NewProver(mechanism string, p Password) (*Prover, error) {
	m := findMechanism(mechanism)
	if m == nil {
		return nil, mongoerr.New(mongoerr.BadValue, "Unknown auth mechanism '%s'", mechanism)
	}
	secret, err := p.secret(mechanism)
	if err != nil {
		return nil, err
	}
	client, err := m.hash.NewClientUnprepped(p.User, secret, "")
	if err != nil {
		return nil, err
	}
	return &Prover{client.WithMinIterations(minIterations).NewConversation()}, nil
}

// Step takes what the server said, "" at first, and returns what to answer.
// Errors: 18 if the server is not what it says to be, or refuses.
func (p *Prover) Step(challenge string) (string, error) {
	answer, err := p.scram.Step(challenge)
	if err != nil {
		return "", mongoerr.New(mongoerr.AuthenticationFailed, "Authentication failed: %v", err)
	}
	return answer, nil
}

// Done says that both sides have proven what they had to.
func (p *Prover) Done() bool { return p.scram.Done() && p.scram.Valid() }
