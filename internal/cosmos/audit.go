package cosmos

import (
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// audited is the event for auditors of an operation: which, and what its details are.
type audited struct {
	atype    string
	describe func(r *request, b *bson.Builder)
}

// events has the operations that leave events, by name. What MongoDB's clients do by a command
// has the event of that; those of permissions have their own, also where one is read: each answer
// has a token.
var events = map[string]audited{
	"createDatabase":    {"createDatabase", describeDatabase},
	"deleteDatabase":    {"dropDatabase", describeDatabase},
	"createContainer":   {"createCollection", describeContainer},
	"replaceContainer":  {"collMod", describeContainer},
	"deleteContainer":   {"dropCollection", describeContainer},
	"createUser":        {"createUser", describeUser},
	"replaceUser":       {"updateUser", describeUser},
	"deleteUser":        {"dropUser", describeUser},
	"createPermission":  {"createPermission", describePermission},
	"replacePermission": {"replacePermission", describePermission},
	"deletePermission":  {"deletePermission", describePermission},
	"getPermission":     {"getPermission", describePermission},
	"listPermissions":   {"listPermissions", describePermission},
	"queryPermissions":  {"queryPermissions", describePermission},
}

// Event is command.Intent's.
func (r *request) Event() (atype string, details func() (param bson.Doc, answered mongoerr.Code)) {
	e, ok := events[r.op.Command.Name]
	if !ok {
		return "", nil
	}
	return e.atype, func() (bson.Doc, mongoerr.Code) {
		var b bson.Builder
		e.describe(r, &b)
		if r.passed < http.StatusBadRequest {
			return b.Finish(), 0
		}
		return b.Finish(), (&Error{Status: r.passed}).code()
	}
}

// sent is the definition that came with the request; nil for none.
func (r *request) sent() bson.Doc {
	if len(r.text) == 0 {
		return nil
	}
	d, err := parseObject(r.text)
	if err != nil {
		return nil
	}
	return d
}

// named is the id in a definition, or that of the path.
func (r *request) named(path string) string {
	if v := r.sent().Lookup("id"); path == "" && v.Type == bson.TypeString {
		return v.Str()
	}
	return path
}

func describeDatabase(r *request, b *bson.Builder) {
	b.String("ns", databaseName(r.named(r.path.db)))
}

func describeContainer(r *request, b *bson.Builder) {
	b.String("ns", namespace(r.path.db, r.named(r.path.container)).String())
	if d := r.sent(); d != nil {
		b.Doc("args", d)
	}
}

func describeUser(r *request, b *bson.Builder) {
	b.String("user", r.named(r.path.user)).String("db", databaseName(r.path.db))
	if d := r.sent(); r.path.user != "" && d != nil {
		b.Doc("args", d)
	}
}

func describePermission(r *request, b *bson.Builder) {
	b.String("user", r.path.user).String("db", databaseName(r.path.db))
	if id := r.named(r.path.permission); id != "" {
		b.String("permission", id)
	}
	if d := r.sent(); d != nil {
		b.Doc("args", d)
	}
}

// tellRefused tells auditors of a request whose signature is wrong, as of a failed login.
// Errors: 14031, and err.
func (r *request) tellRefused(kind string, err error) error {
	if !mongoerr.Is(err, mongoerr.AuthenticationFailed) {
		return err // the dispatcher tells
	}
	param := new(bson.Builder).String("user", "").String("db", r.op.DB).String("mechanism", "cosmos "+kind).String("command", r.op.Command.Name).String("ns", r.op.NS).Finish()
	if failed := r.op.Audit("authenticate", param, mongoerr.AuthenticationFailed); failed != nil {
		return failed
	}
	return err
}
