package mongoerr

import (
	"errors"
	"fmt"
)

// Error is an error as a client of the server sees it.
type Error struct {
	Code    Code
	Message string
	Labels  []string // errorLabels, such as "TransientTransactionError"
	Info    []byte   // errInfo: a BSON document, or nil
	Extra   []byte   // further top-level fields of the reply (keyPattern, keyValue): a BSON document, or nil
}

// New makes an Error; format and args as for fmt.Sprintf.
func New(code Code, format string, args ...any) *Error {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	return &Error{Code: code, Message: format}
}

// Under returns err with what was being done put in front of its message, as
// the server prints it. Errors that are no *Error stay as they are.
func Under(err error, what string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	c := *From(err)
	c.Message = what + " :: caused by :: " + c.Message
	return &c
}

// WithInfo returns a copy of e that carries errInfo, a BSON document.
func (e *Error) WithInfo(info []byte) *Error { c := *e; c.Info = info; return &c }

// WithExtra returns a copy of e with further top-level fields for the reply.
func (e *Error) WithExtra(extra []byte) *Error { c := *e; c.Extra = extra; return &c }

// WithLabels returns a copy of e with error labels.
func (e *Error) WithLabels(labels ...string) *Error { c := *e; c.Labels = labels; return &c }

// Prefix returns err with context in front of its message, in the server's
// way: "context :: caused by :: message". Code and the rest stay.
func Prefix(err error, context string) error {
	if err == nil {
		return nil
	}
	e := *From(err)
	e.Message = context + " :: caused by :: " + e.Message
	return &e
}

func (e *Error) Error() string { return e.Message }

// From finds the Error in err's chain; any other error becomes code 1,
// InternalError. Of damage it tells all that the chain says: which file, and where.
func From(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		if e.Code == DataCorruptionDetected && error(e) != err {
			return New(e.Code, "%s", err.Error())
		}
		return e
	}
	return &Error{Code: InternalError, Message: err.Error()}
}

// Is reports whether err's chain holds an Error of one of the codes.
func Is(err error, codes ...Code) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return false
}
