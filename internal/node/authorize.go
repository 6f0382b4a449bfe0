package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/access"
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/schema"
)

// EnableAccessControl makes every command be checked against the privileges of the user
// who runs it. (Manual: Role-Based Access Control.) It is called before the first
// request.
func (n *Node) EnableAccessControl() {
	n.access = &access.Control{Accounts: n.accounts, Collections: collectionsOf{n}}
	n.Dispatcher.Authorize = n.authorize
}

// CheckPassword is account.Store.CheckPassword, on data that stay open meanwhile.
func (n *Node) CheckPassword(ctx context.Context, remote, local string, name auth.UserName, password string) (p *auth.Principal, err error) {
	err = n.inside(ctx, func(ctx context.Context) error {
		p, err = n.accounts.CheckPassword(ctx, n.Dispatcher.Audit, remote, local, name, password)
		return err
	})
	return p, err
}

// authorize decides whether op's client may run it (code 13 if not). It is
// Dispatcher.Authorize.
func (n *Node) authorize(ctx context.Context, op *command.Op) (ended func(), err error) {
	if op.Command.Place == command.WithoutData {
		return nil, n.inside(ctx, func(ctx context.Context) error { return n.access.MayRun(ctx, op) })
	}
	return n.access.Ended(op), n.access.MayRun(ctx, op)
}

// collectionsOf is the access.Collections of a node.
type collectionsOf struct{ *Node }

// NameOf implements access.Collections.
func (n collectionsOf) NameOf(db string, uuid [16]byte) string {
	if c := n.Catalog.LookupUUID(uuid); c != nil && c.Namespace.DB == db {
		return c.Namespace.Coll
	}
	return ""
}

// View implements access.Collections.
func (n collectionsOf) View(op *command.Op, name string) (on string, stages bson.Doc, ok bool) {
	c := n.Catalog.Lookup(schema.Namespace{DB: op.DB, Coll: name})
	if c == nil || !c.IsView() {
		return "", nil, false
	}
	return c.Settings.ViewOn, c.Settings.Pipeline, true
}
