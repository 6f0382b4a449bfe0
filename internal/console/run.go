package console

import (
	"errors"
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// textGrowth is how much longer than BSON text and what is parsed from it are, at most in what
// is common.
const textGrowth = 3

// aboutConnections are the commands that say who the client of a connection is. Here that is the
// session's.
var aboutConnections = map[string]bool{"saslStart": true, "saslContinue": true, "authenticate": true, "logout": true}

// run runs one command: {db, command}. What it replied is the answer, errors as well.
func (s *Server) run(w http.ResponseWriter, r *http.Request, _ *session) {
	var taken memory.Request
	taken.Open(s.o.Memory)
	defer taken.Release()
	text, ok := body(w, r, maxRun)
	if !ok {
		return
	}
	if !book(w, r, &taken, len(text)) {
		return
	}
	db, cmd, err := readCommand(text)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	c := command.ClientOf(r.Context())
	reply := s.o.Dispatch(r.Context(), &command.Request{Client: c, DB: db, Body: cmd})
	defer reply.Release()
	if reply.Body == nil {
		fail(w, http.StatusServiceUnavailable, mongoerr.New(mongoerr.InterruptedAtShutdown, "the server ended the connection"))
		return
	}
	if s.o.AccessControl && c.Principal() == nil { // the user was dropped: asUser ends the session
		fail(w, http.StatusUnauthorized, errNoSession)
		return
	}
	if !book(w, r, &taken, len(text)+len(reply.Body)) {
		return
	}
	answer(w, reply.Body)
}

// book has taken hold what n bytes of text and BSON come to; false if it has answered that there is
// no memory.
func book(w http.ResponseWriter, r *http.Request, taken *memory.Request, n int) bool {
	err := taken.Set(r.Context(), textGrowth*n)
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err)
	}
	return err == nil
}

// readCommand reads {db, command} in Extended JSON. Errors: 9, 13, 17262 (a document that is too
// long or too deep).
func readCommand(text []byte) (db string, cmd bson.Doc, err error) {
	d, err := bson.ParseJSON(string(text))
	if err != nil {
		return "", nil, mongoerr.New(mongoerr.FailedToParse, "%v", err)
	}
	name, body := d.Lookup("db"), d.Lookup("command")
	if name.Type != bson.TypeString || body.Type != bson.TypeDocument || body.Doc().IsEmpty() {
		return "", nil, mongoerr.New(mongoerr.FailedToParse, "a request is {db: <string>, command: <document>}")
	}
	cmd = body.Doc()
	if first, _ := cmd.First(); aboutConnections[first] {
		return "", nil, mongoerr.New(mongoerr.Unauthorized, "who uses the console is said at its login")
	}
	return name.Str(), cmd, bson.Validate(cmd, bson.MaxMessageDepth)
}

// parse reads what a person typed as a query, a pipeline or a document: {text}. The answer is
// {value}, or an error with where it is: at, in bytes of text.
func (s *Server) parse(w http.ResponseWriter, r *http.Request, _ *session) {
	var taken memory.Request
	taken.Open(s.o.Memory)
	defer taken.Release()
	text, ok := body(w, r, maxRun)
	if !ok || !book(w, r, &taken, len(text)) {
		return
	}
	d, err := bson.ParseJSON(string(text))
	if err != nil || d.Lookup("text").Type != bson.TypeString {
		fail(w, http.StatusBadRequest, mongoerr.New(mongoerr.FailedToParse, "a request is {text: <string>}"))
		return
	}
	v, err := bson.ParseJSONValue(d.Lookup("text").Str())
	if err != nil {
		var b bson.Builder
		b.Fields(command.ErrorReply(mongoerr.New(mongoerr.FailedToParse, "%v", err)))
		if where := (*bson.SyntaxError)(nil); errors.As(err, &where) {
			b.Int64("at", int64(where.At))
		}
		answer(w, b.Finish())
		return
	}
	value := new(bson.Builder).Value("value", v).Finish()
	if !book(w, r, &taken, len(text)+len(value)) {
		return
	}
	answer(w, value)
}
