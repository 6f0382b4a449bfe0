package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"

	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/auth"
)

// Bounds of console sessions.
const (
	idleTime       = 30 * time.Minute // without a call that a person made
	sessionTime    = 12 * time.Hour
	maxSessions    = 1024
	maxUserSession = 16
)

// session is a console session: a browser that has logged in.
type session struct {
	token     string // the page sends it with every call
	owner     auth.UserName
	began     time.Time
	used      time.Time // under the mutex of sessions
	principal atomic.Pointer[auth.Principal]
	tails     atomic.Int64 // open ones
}

// sessions are the console sessions of a server, by the hash of their cookie's secret. The
// zero value has none.
type sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*session
}

// begin makes a session of a user, nil where access is not controlled, and returns the secret
// for its cookie. Where there are too many, the one that rested longest goes: of the user, or of
// all.
func (s *sessions) begin(p *auth.Principal) (*session, string) {
	now := time.Now()
	one, secret := &session{token: rand.Text(), began: now, used: now}, rand.Text()
	if p != nil {
		one.owner = p.User.Name
	}
	one.principal.Store(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[[sha256.Size]byte]*session{}
	}
	own := 0
	for key, other := range s.all {
		switch {
		case other.over(now):
			delete(s.all, key)
		case other.owner == one.owner:
			own++
		}
	}
	if own >= maxUserSession {
		s.dropOldest(func(other *session) bool { return other.owner == one.owner })
	}
	if len(s.all) >= maxSessions {
		s.dropOldest(func(*session) bool { return true })
	}
	s.all[sha256.Sum256([]byte(secret))] = one
	return one, secret
}

// dropOldest ends the session that rested longest of some.
func (s *sessions) dropOldest(of func(*session) bool) {
	var oldest *session
	var at [sha256.Size]byte
	for key, one := range s.all {
		if of(one) && (oldest == nil || one.used.Before(oldest.used)) {
			oldest, at = one, key
		}
	}
	delete(s.all, at)
}

// find returns the session of a secret and a token, nil for none. used says that a person made
// the call.
func (s *sessions) find(secret, token string, used bool) *session {
	key := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[key]
	if one == nil {
		return nil
	}
	now := time.Now()
	if one.over(now) {
		delete(s.all, key)
		return nil
	}
	if subtle.ConstantTimeCompare([]byte(one.token), []byte(token)) != 1 {
		return nil
	}
	if used {
		one.used = now
	}
	return one
}

// end ends the session of a secret, if there is one.
func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(secret)))
}

func (s *session) over(now time.Time) bool {
	return now.Sub(s.used) >= idleTime || now.Sub(s.began) >= sessionTime
}
