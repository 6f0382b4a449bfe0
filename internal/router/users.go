package router

import (
	"context"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/access"
	"github.com/mayflydb/mayfly/internal/account"
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ofUsers has the commands about users and roles, which are stored on the config servers.
const ofUsers = `createUser updateUser dropUser dropAllUsersFromDatabase grantRolesToUser revokeRolesFromUser usersInfo
	createRole updateRole dropRole dropAllRolesFromDatabase grantRolesToRole revokeRolesFromRole grantPrivilegesToRole
	revokePrivilegesFromRole rolesInfo`

// userCommands are the commands about users, roles and logins. Those of ofUsers are
// checked here, and run on the config servers.
func (r *Router) userCommands() []*command.Command {
	passed := map[string]bool{}
	for name := range strings.FieldsSeq(ofUsers) {
		passed[name] = true
	}
	var all []*command.Command
	for _, c := range r.accounts.Commands() {
		switch {
		case passed[c.Name]:
			c.Run = func(ctx context.Context, op *command.Op) error {
				defer r.accounts.Changed()
				first, v := op.Body.First()
				b := new(bson.Builder).Value(first, v)
				appendRest(b, op.Body)
				return r.passToConfig(ctx, op, client.Call{DB: op.DB, Body: b.Finish()})
			}
		case strings.HasPrefix(c.Name, "_"): // asked of servers with data
			continue
		}
		all = append(all, c)
	}
	return all
}

// CheckPassword is account.Store.CheckPassword.
func (r *Router) CheckPassword(ctx context.Context, remote, local string, name auth.UserName, password string) (*auth.Principal, error) {
	return r.accounts.CheckPassword(ctx, r.Dispatcher.Audit, remote, local, name, password)
}

// configUsers is the account.Source of a router.
type configUsers struct{ *Router }

// User implements account.Source.
func (r configUsers) User(ctx context.Context, name auth.UserName) (bson.Doc, error) {
	a, err := r.config.Run(ctx, client.Call{DB: name.DB, Body: account.Details(name), Idempotent: true})
	if err != nil {
		return nil, mongoerr.Prefix(err, "asking the config servers for a user")
	}
	if users := documents(a.Reply.Lookup("users")); len(users) > 0 {
		return users[0], nil
	}
	return nil, nil
}

// HasUsers implements account.Source.
func (r configUsers) HasUsers(ctx context.Context) (bool, error) {
	body := new(bson.Builder).String("find", "system.users").Int32("limit", 1).Bool("singleBatch", true).Finish()
	a, err := r.config.Run(ctx, client.Call{DB: "admin", Body: body, Idempotent: true})
	return len(documents(document(a.Reply.Lookup("cursor")).Lookup("firstBatch"))) > 0, err
}

// FollowUsers asks the config servers again and again, until ctx ends, whether users or
// roles have changed: what a client may do is then resolved anew.
func (r *Router) FollowUsers(ctx context.Context) {
	if !r.AccessControl {
		return
	}
	ask := new(bson.Builder).Int32("_getUserCacheGeneration", 1).Finish()
	var known bson.Value
	for client.Sleep(ctx, time.Duration(r.userInterval.Load())*time.Second) == nil {
		a, err := r.config.Run(ctx, client.Call{DB: "admin", Body: ask, Idempotent: true})
		if err != nil {
			if ctx.Err() == nil {
				r.Log.InfoContext(ctx, "The config servers do not say whether users have changed", "error", err)
			}
			continue
		}
		if now := a.Reply.Lookup("cacheGeneration").Clone(); now.Type != known.Type || string(now.Data) != string(known.Data) {
			known = now
			r.accounts.Changed()
		}
	}
}

// authorize decides whether op's client may run it (code 13 where not), and has the
// session of op say whose it is: shards know the router alone. It is
// Dispatcher.Authorize.
func (r *Router) authorize(ctx context.Context, op *command.Op) (ended func(), err error) {
	if err := r.access.MayRun(ctx, op); err != nil {
		return nil, err
	}
	if op.Session != nil && !op.Generic.LSID.Has("uid") {
		op.Generic.LSID = op.Session.ID.Document()
		op.Body = withField(op.Body, "lsid", bson.Document(op.Generic.LSID))
	}
	return r.access.Ended(op), nil
}

// collectionsOf is the access.Collections of a router.
type collectionsOf struct{ *Router }

var _ access.Collections = collectionsOf{}

// NameOf implements access.Collections: a router takes no collection by its UUID.
func (collectionsOf) NameOf(string, [16]byte) string { return "" }

// View implements access.Collections: it asks the primary shard of the database.
func (r collectionsOf) View(op *command.Op, name string) (on string, stages bson.Doc, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), viewTime)
	defer cancel()
	d, err := r.view(ctx, op, op.DB, name)
	if err != nil || d == nil {
		return "", nil, false // the command itself says what is wrong
	}
	return d.Lookup("viewOn").Str(), d.Lookup("pipeline").Doc(), true
}

// viewTime is how long the primary shard may take to say what a view reads.
const viewTime = 10 * time.Second

// ownOps says whether an operation of a shard belongs to op's client: by the user of its
// session.
func ownOps(op *command.Op, d bson.Doc) bool {
	uid := document(d.Lookup("lsid")).Lookup("uid")
	if uid.Type != bson.TypeBinary {
		return false
	}
	_, content := uid.Binary()
	owner := op.Client.Owner()
	return string(content) == string(owner[:])
}
