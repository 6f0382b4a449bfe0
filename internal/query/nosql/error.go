package nosql

import "fmt"

// Error is what is wrong with a query, with the service's code and the place
// in the text, in bytes: [Start, End).
type Error struct {
	Code       string // SC1001 and so on; "" for errors of evaluation
	Message    string
	Start, End int
}

func (e *Error) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return fmt.Sprintf("%s: %s (at %d-%d)", e.Code, e.Message, e.Start, e.End)
}

// The service's codes.
const (
	codeSyntax       = "SC1001"
	codeEmpty        = "SC1002"
	codeToken        = "SC1010"
	codeUnresolved   = "SC2001"
	codeFunction     = "SC2005"
	codeArguments    = "SC2050"
	codeAggregate    = "SC2103"
	codeDuplicate    = "SC2022"
	codeStar         = "SC2040"
	codeTooDeep      = "SC3020"
	codeLimits       = "SC2061"
	codeOrderByShape = "SC2102"
	codeOrderByPath  = "SC2206"
)

func errorAt(code string, t token, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Start: t.start, End: t.end}
}

// failed is an error of evaluation, which has no place.
func failed(format string, args ...any) *Error { return &Error{Message: fmt.Sprintf(format, args...)} }
