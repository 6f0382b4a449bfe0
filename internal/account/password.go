package account

import (
	"context"
	"errors"
	"sync"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// passwords lets one password be hashed at a time: strangers may send as many as they like.
type passwords struct{ sync.Mutex }

func (p *passwords) knows(u *auth.User, password string) bool {
	p.Lock()
	defer p.Unlock()
	return u.Knows(password)
}

// CheckPassword returns the user whose password it is, for those who send it in one piece, as
// HTTP has it. It delays after failed logins as saslStart does, and tells auditors. remote and
// local are the ends of the connection. Errors: 18, 14031, those of the source of users.
func (s *Store) CheckPassword(ctx context.Context, audit command.Auditor, remote, local string, name auth.UserName, password string) (*auth.Principal, error) {
	if err := s.failures.Wait(ctx, remote, name); err != nil {
		return nil, err
	}
	const mechanism = "PLAIN"
	client := &command.Client{Remote: remote, Local: local}
	tell := func(result mongoerr.Code) error {
		if audit == nil {
			return nil
		}
		return audit.Tell(client, "authenticate", loginOf(name, mechanism), result)
	}
	p, err := s.checkPassword(ctx, remote, local, name, password)
	if err == nil {
		client.SetPrincipal(p)
		if err := tell(0); err != nil {
			return nil, err
		}
		s.failures.Succeeded(remote, name)
		return p, nil
	}
	if errors.Is(err, auth.ErrFailed) { // and not where, say, the config servers are away
		s.failures.Failed(remote, name)
	}
	result := mongoerr.From(err)
	s.log.InfoContext(ctx, "Failed to authenticate", "c", "ACCESS", "id", logNotAuthenticated, "client", remote, "isClusterMember", false,
		"mechanism", mechanism, "user", shownName(name.User), "db", name.DB, "error", result.Code.String()+": "+result.Message, "result", int(result.Code))
	if untold := tell(result.Code); untold != nil {
		return nil, untold
	}
	return nil, err
}

func (s *Store) checkPassword(ctx context.Context, remote, local string, name auth.UserName, password string) (*auth.Principal, error) {
	if name == auth.MemberName {
		return nil, auth.ErrFailed
	}
	u, err := s.User(ctx, name)
	if err != nil {
		return nil, err
	}
	if u == nil || !s.passwords.knows(u, password) {
		return nil, auth.ErrFailed
	}
	p, err := s.Principal(ctx, name)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, auth.ErrFailed
	}
	return p, p.CheckAddress(remote, local)
}
