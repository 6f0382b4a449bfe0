package console

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/auth"
)

func principal(name string) *auth.Principal {
	return auth.ResolvedPrincipal(&auth.User{Name: auth.UserName{User: name, DB: "admin"}}, auth.Resolved{}, 0)
}

// A session needs both of its secrets, and ends when nobody has used it, or after its time,
// whatever a page asks by itself.
func TestSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sessions
		one, secret := s.begin(principal("ann"))
		other, otherSecret := s.begin(principal("ann"))
		for _, w := range []struct {
			secret, token string
			want          *session
		}{
			{secret, one.token, one}, {otherSecret, other.token, other},
			{secret, other.token, nil}, {secret, "", nil}, {"", one.token, nil}, {"", "", nil}, {one.token, secret, nil},
		} {
			if got := s.find(w.secret, w.token, true); got != w.want {
				t.Errorf("%q %q: %v", w.secret, w.token, got)
			}
		}
		time.Sleep(idleTime - time.Second)
		if s.find(secret, one.token, true) != one || s.find(otherSecret, other.token, false) != other {
			t.Error("a session ended early")
		}
		time.Sleep(time.Second)
		if s.find(otherSecret, other.token, true) != nil {
			t.Error("a session that only a page used goes on")
		}
		for range int(sessionTime/idleTime)*2 - 3 {
			time.Sleep(idleTime / 2)
			if s.find(secret, one.token, true) != one {
				t.Fatal("a session in use ended")
			}
		}
		time.Sleep(idleTime / 2)
		if s.find(secret, one.token, true) != nil || len(s.all) != 0 {
			t.Error("a session outlived its time")
		}
		one, secret = s.begin(nil)
		s.end(secret)
		if s.find(secret, one.token, true) != nil {
			t.Error("a session that was ended goes on")
		}
	})
}

// Where there are too many sessions, the one that rested longest goes: a user's own first.
func TestSessionsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sessions
		begin := func(name string) func() bool {
			time.Sleep(time.Millisecond) // no two were used at the same time
			one, secret := s.begin(principal(name))
			return func() bool { return s.find(secret, one.token, true) == one }
		}
		first, ann := begin("ben"), begin("ann")
		for range maxUserSession - 1 {
			begin("ann")
		}
		if !ann() || !first() {
			t.Fatal("a session ended below the bound")
		}
		begin("ann")
		if len(s.all) != maxUserSession+1 || !ann() || !first() {
			t.Fatalf("%d sessions", len(s.all))
		}
		for i := range maxSessions {
			begin("user" + strconv.Itoa(i))
		}
		if len(s.all) != maxSessions || ann() || first() {
			t.Errorf("%d sessions", len(s.all))
		}
	})
}
