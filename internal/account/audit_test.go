package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/audit"
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// auditFile is an audit.Output that can be full, of events in BSON.
type auditFile struct {
	full bool
	told []string // "atype user result, and who it is"
}

func (f *auditFile) Write(event []byte) error {
	if f.full {
		return errors.New("no space left on device")
	}
	if d := bson.Doc(event); d.Lookup("atype").Str() == "authenticate" {
		f.told = append(f.told, fmt.Sprint(d.Lookup("param").Doc().Lookup("user").Str(), " ", d.Lookup("result").Int32(), " ", len(d.Lookup("users").Doc().Slice())))
	}
	return nil
}
func (*auditFile) Rotate() error { return nil }
func (*auditFile) Close() error  { return nil }

// Failed logins are counted, and so slowed, while the audit log cannot be written, too.
func TestFailuresCountOnFullDisk(t *testing.T) {
	s := newServed(t, slog.New(slog.DiscardHandler))
	s.run(&command.Client{}, `{"createUser": "ann", "pwd": "p", "roles": []}`)
	out := &auditFile{}
	l, err := audit.New(audit.Options{Output: out, BSON: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.d.Audit = l
	for _, user := range []string{"ann", "bob"} {
		op := &command.Op{Dispatcher: s.d, Client: &command.Client{Remote: "10.0.0.1:1"}}
		c := &command.Conversation{Conversation: &auth.Conversation{Name: user, Mechanism: auth.ScramSHA256}, DB: "admin"}
		if user == "ann" {
			if c.User, err = s.User(t.Context(), auth.UserName{User: user, DB: "admin"}); err != nil {
				t.Fatal(err)
			}
		}
		out.full = true // once the login has begun: else it would be refused
		if err := s.notAuthenticated(t.Context(), op, c, auth.ErrFailed); !mongoerr.Is(err, mongoerr.OutOfDiskSpace) {
			t.Errorf("%s: %v", user, err)
		}
		if s.failures.Delay("10.0.0.1:2", auth.UserName{User: user, DB: "admin"}) == 0 {
			t.Errorf("the failed login of %s is not counted", user)
		}
	}
}

// away is a Source that cannot be asked.
type away struct{}

func (away) User(context.Context, auth.UserName) (bson.Doc, error) {
	return nil, mongoerr.New(mongoerr.HostUnreachable, "away")
}
func (away) HasUsers(context.Context) (bool, error) { return true, nil }

// A password in one piece is told to auditors, right or wrong; only a wrong one counts as a
// failed login; and without its event there is no login.
func TestCheckPasswordIsAudited(t *testing.T) {
	s := newServed(t, slog.New(slog.DiscardHandler))
	s.run(&command.Client{}, `{"createUser": "ann", "pwd": "p", "roles": []}`)
	out := &auditFile{}
	l, err := audit.New(audit.Options{Output: out, BSON: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ann := auth.UserName{User: "ann", DB: "admin"}
	check := func(s *Store, password string) mongoerr.Code {
		_, err := s.CheckPassword(t.Context(), l, "10.0.0.1:1", "10.0.0.2:2", ann, password)
		if err == nil {
			return 0
		}
		return mongoerr.From(err).Code
	}
	if code := check(s.Store, "p"); code != 0 {
		t.Error(code)
	}
	if code := check(s.Store, "x"); code != mongoerr.AuthenticationFailed || s.failures.Delay("10.0.0.1:2", ann) == 0 {
		t.Error(code)
	}
	router := New(Options{Source: away{}, Log: slog.New(slog.DiscardHandler), Params: command.NewDispatcher(slog.New(slog.DiscardHandler)).Params})
	if code := check(router, "p"); code != mongoerr.HostUnreachable || router.failures.Delay("10.0.0.1:2", ann) != 0 {
		t.Errorf("no config servers: %v", code)
	}
	if told := strings.Join(out.told, ", "); told != "ann 0 1, ann 18 0, ann 6 0" {
		t.Errorf("told: %s", told)
	}
	out.full = true
	for _, password := range []string{"p", "x"} {
		if code := check(s.Store, password); code != mongoerr.OutOfDiskSpace {
			t.Errorf("on a full disk: %v", code)
		}
	}
}
