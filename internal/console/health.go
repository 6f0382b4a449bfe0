package console

import (
	"context"
	"net/http"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/doctor"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// maxExaminations bounds those at a time: each asks for all collections.
	maxExaminations = 2
	// examineTime bounds one, as the time of a request to be read does others.
	examineTime = time.Minute
	// unusedFor is for how long an index was not used that is told, as of mayfly doctor.
	unusedFor = 7 * 24 * time.Hour
)

// health examines the server as mayfly doctor does, with the rights of the session's user and
// from here: others are not asked. The answer is doctor.Report's.
func (s *Server) health(w http.ResponseWriter, r *http.Request, _ *session) {
	if s.examinations.Add(1) > maxExaminations {
		s.examinations.Add(-1)
		fail(w, http.StatusServiceUnavailable, mongoerr.New(mongoerr.ExceededMemoryLimit, "%d pages examine the server already", maxExaminations))
		return
	}
	defer s.examinations.Add(-1)
	ctx, cancel := context.WithTimeoutCause(r.Context(), examineTime, mongoerr.New(mongoerr.MaxTimeMSExpired, "the server was not examined in %v", examineTime))
	defer cancel()
	here := ownServer{s: s, client: command.ClientOf(r.Context())}
	address := s.o.Host
	if d, err := here.Run(ctx, "admin", new(bson.Builder).Int32("hello", 1).Finish()); err == nil && d.Lookup("me").Type == bson.TypeString {
		address = d.Lookup("me").Str() // by which other members know it
	}
	report, err := doctor.Examine(ctx, doctor.Options{Addresses: []string{address}, UnusedFor: unusedFor, Open: func(_ context.Context, other string) (doctor.Server, error) {
		if other != address {
			return nil, doctor.ErrElsewhere
		}
		return here, nil
	}})
	if err != nil {
		answer(w, command.ErrorReply(mongoerr.From(err)))
		return
	}
	answer(w, report.Doc())
}

// ownServer is this server, as a client of it asks.
type ownServer struct {
	s      *Server
	client *command.Client
}

// Run is doctor.Server's.
func (a ownServer) Run(ctx context.Context, db string, body bson.Doc) (bson.Doc, error) {
	reply := a.s.o.Dispatch(ctx, &command.Request{Client: a.client, DB: db, Body: body})
	defer reply.Release()
	if reply.Body == nil {
		return nil, mongoerr.New(mongoerr.InterruptedAtShutdown, "the server ended the connection")
	}
	d := reply.Body.Clone()
	if !d.Lookup("ok").Truthy() {
		return nil, mongoerr.New(mongoerr.Code(bson.ClampToInt64(d.Lookup("code"))), "%s", text(d, "errmsg"))
	}
	return d, nil
}

// Close is doctor.Server's: the connection is the browser's.
func (ownServer) Close() error { return nil }

// text is a string field, "" where it is none.
func text(d bson.Doc, name string) string {
	if v := d.Lookup(name); v.Type == bson.TypeString {
		return v.Str()
	}
	return ""
}
