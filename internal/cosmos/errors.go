package cosmos

import (
	"fmt"
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// Error is an answer of status 400 and above.
type Error struct {
	Status, Substatus int
	Message           string
	Plan              bson.Doc // additionalErrorInfo, or nil
}

func (e *Error) Error() string { return e.Message }

// inMongoDB maps statuses to MongoDB's codes for logs, counters and the profile.
var inMongoDB = map[int]mongoerr.Code{
	http.StatusUnauthorized: mongoerr.AuthenticationFailed, http.StatusForbidden: mongoerr.Unauthorized, http.StatusNotFound: mongoerr.NoMatchingDocument,
	http.StatusMethodNotAllowed: mongoerr.CommandNotSupported, http.StatusConflict: mongoerr.DuplicateKey, http.StatusPreconditionFailed: mongoerr.BadValue,
	http.StatusRequestTimeout: mongoerr.MaxTimeMSExpired, http.StatusInternalServerError: mongoerr.InternalError,
	http.StatusTooManyRequests: mongoerr.ExceededMemoryLimit, http.StatusRequestEntityTooLarge: mongoerr.BSONObjectTooLarge,
}

// As has errors.As find the error of MongoDB that e is for the dispatcher.
func (e *Error) As(target any) bool {
	into, ok := target.(**mongoerr.Error)
	if !ok {
		return false
	}
	*into = &mongoerr.Error{Code: e.code(), Message: e.Message}
	return true
}

func (e *Error) code() mongoerr.Code {
	if code, ok := inMongoDB[e.Status]; ok {
		return code
	}
	return mongoerr.BadValue
}

// Substatus codes.
const (
	substatusNotWritable    = 3 // SDKs then read the account again
	substatusKeyMismatch    = 1001
	substatusRangeGone      = 1002
	substatusCrossPartition = 1004
)

// codes has the names of statuses in the body.
var codes = map[int]string{
	http.StatusBadRequest: "BadRequest", http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound",
	http.StatusMethodNotAllowed: "MethodNotAllowed", http.StatusRequestTimeout: "RequestTimeout", http.StatusConflict: "Conflict", http.StatusGone: "Gone",
	http.StatusPreconditionFailed: "PreconditionFailed", http.StatusRequestEntityTooLarge: "RequestEntityTooLarge",
	http.StatusFailedDependency: "FailedDependency", 449: "RetryWith", http.StatusInternalServerError: "InternalServerError",
	http.StatusTooManyRequests:    "TooManyRequests",
	http.StatusServiceUnavailable: "ServiceUnavailable",
}

func newError(status int, format string, args ...any) *Error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *Error {
	return newError(http.StatusBadRequest, format, args...)
}

func keyMismatch(format string, args ...any) *Error {
	e := badRequest(format, args...)
	e.Substatus = substatusKeyMismatch
	return e
}

var (
	errNotFound = newError(http.StatusNotFound, "Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found")
	errConflict = newError(http.StatusConflict, "Resource with specified id or name already exists.")
	errUnique   = newError(http.StatusConflict, "Unique index constraint violation.")
	errMatch    = newError(http.StatusPreconditionFailed, "One of the specified pre-condition is not met. Learn more: https://aka.ms/CosmosDB/sql/errors/precondition-failed")
	errURL      = badRequest("Request url is invalid.")
	errTimeout  = newError(http.StatusRequestTimeout, "The operation did not complete within the allotted amount of time.")
	errMethod   = newError(http.StatusMethodNotAllowed, "The requested verb is not supported.")
)

// maxBody is the maximum size of an item and of a batch, in bytes.
const maxBody = 2 << 20

var errTooLarge = newError(http.StatusRequestEntityTooLarge, "Request size is too large. The maximum is %d bytes.", maxBody)

// asError converts err to a response.
func asError(err error) *Error {
	switch e := err.(type) {
	case *Error:
		return e
	case *nosql.Error:
		return queryError(e)
	}
	if mongoerr.Is(err, mongoerr.DuplicateKey) {
		return errUnique
	}
	if mongoerr.Is(err, mongoerr.NamespaceNotFound, mongoerr.QueryPlanKilled) {
		return errNotFound
	}
	e := mongoerr.From(err)
	switch e.Code {
	case mongoerr.MaxTimeMSExpired, mongoerr.Interrupted, mongoerr.ClientDisconnect:
		return errTimeout
	case mongoerr.InterruptedAtShutdown, mongoerr.ShutdownInProgress:
		return newError(http.StatusServiceUnavailable, "%s", e.Message)
	case mongoerr.NotWritablePrimary, mongoerr.PrimarySteppedDown, mongoerr.InterruptedDueToReplStateChange:
		return &Error{Status: http.StatusForbidden, Substatus: substatusNotWritable, Message: "The requested operation cannot be performed at this region"}
	case mongoerr.InternalError:
		return newError(http.StatusInternalServerError, "%s", e.Message)
	case mongoerr.BSONObjectTooLarge:
		return errTooLarge
	case mongoerr.ExceededMemoryLimit:
		return newError(http.StatusTooManyRequests, "%s", e.Message)
	case mongoerr.StaleConfig, mongoerr.StaleDbVersion, mongoerr.StaleEpoch, mongoerr.HostUnreachable, mongoerr.FailedToSatisfyReadPreference,
		mongoerr.WriteConcernFailed, mongoerr.OutOfDiskSpace:
		return newError(http.StatusServiceUnavailable, "%s", e.Message)
	}
	return badRequest("%s", e.Message)
}

// queryError converts the error of a query, with its position in the service's form.
func queryError(e *nosql.Error) *Error {
	if e.Code == "" {
		return badRequest("%s", e.Message)
	}
	var b bson.Builder
	b.OpenArray("errors").OpenDoc("0").String("severity", "Error")
	b.OpenDoc("location").Int("start", int64(e.Start)).Int("end", int64(e.End)).Close()
	b.String("code", e.Code).String("message", e.Message).Close().Close()
	return badRequest("%s", nosql.AppendJSONDocument(nil, b.Finish()))
}
