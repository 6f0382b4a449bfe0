package account

import (
	"context"
	"sync"

	"github.com/mayflydb/mayfly/internal/auth"
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
// HTTP has it. It delays after failed logins as saslStart does. remote and local are the ends of
// the connection. Errors: 18.
func (s *Store) CheckPassword(ctx context.Context, remote, local string, name auth.UserName, password string) (*auth.Principal, error) {
	if err := s.failures.Wait(ctx, remote, name); err != nil {
		return nil, err
	}
	p, err := s.checkPassword(ctx, remote, local, name, password)
	if err == nil {
		s.failures.Succeeded(remote, name)
		return p, nil
	}
	s.failures.Failed(remote, name)
	result := mongoerr.From(err)
	s.log.InfoContext(ctx, "Failed to authenticate", "c", "ACCESS", "id", logNotAuthenticated, "client", remote, "isClusterMember", false,
		"mechanism", "PLAIN", "user", shownName(name.User), "db", name.DB, "error", result.Code.String()+": "+result.Message, "result", int(result.Code))
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
