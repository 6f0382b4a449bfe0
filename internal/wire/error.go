package wire

import "github.com/mayflydb/mayfly/internal/mongoerr"

// Reaction says what a connection does about a message that cannot be taken.
type Reaction int

// A document that is not well-formed is the user's mistake: the answer says
// so and the connection continues. Sections that do not add up mean that the two
// sides have lost each other: the answer still says so, and nothing more is
// read. Where not even the request can be told, the connection just ends. The
// retired opcodes that have no answer are passed over.
const (
	Answer Reaction = iota
	AnswerAndClose
	Close
	Ignore
)

// Error is a message that cannot be taken.
type Error struct {
	Cause    *mongoerr.Error // what the client reads
	Reaction Reaction
}

func (e *Error) Error() string { return e.Cause.Message }

// Unwrap gives the error in the form the client reads.
func (e *Error) Unwrap() error { return e.Cause }

func answering(err error) *Error { return &Error{mongoerr.From(err), Answer} }

func broken(code mongoerr.Code, format string, args ...any) *Error {
	return &Error{mongoerr.New(code, format, args...), AnswerAndClose}
}

func closing(code mongoerr.Code, format string, args ...any) *Error {
	return &Error{mongoerr.New(code, format, args...), Close}
}
