package access

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/account"
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Collections answers the rules' questions about collections.
type Collections interface {
	// NameOf returns the name of the collection with a UUID in a database, "" for none.
	NameOf(db string, uuid [16]byte) string
	// View returns the collection that a view in op's database reads, and its pipeline.
	View(op *command.Op, name string) (on string, stages bson.Doc, ok bool)
}

// Control is the access control of one server.
type Control struct {
	Accounts    *account.Store
	Collections Collections
}

// MayRun returns nil where op's client may run it, else error 13.
func (c *Control) MayRun(ctx context.Context, op *command.Op) error {
	p, err := c.Accounts.Current(ctx, op.Client)
	if err != nil {
		return err
	}
	list, known := needs[op.Command.Name]
	if strings.HasPrefix(op.Command.Name, "_configsvr") || strings.HasPrefix(op.Command.Name, "_shardsvr") {
		list, known = clusterNeeds(auth.Internal), true // the parts of a cluster ask each other
	}
	if p == nil {
		first, err := c.Accounts.Bootstraps(ctx, op)
		if first || err != nil {
			return err
		}
		return mongoerr.New(mongoerr.Unauthorized, "Command %s requires authentication", op.Name)
	}
	if known {
		op.Needs = list(c.Collections, op)
	}
	if !known || !p.MayAll(op.Needs) {
		return mongoerr.New(mongoerr.Unauthorized, "not authorized on %s to execute command %s", op.DB, op.ShownCommand())
	}
	return nil
}

// Ended returns a function to call after op, which may write to the collections of
// users and roles; nil for none.
func (c *Control) Ended(op *command.Op) func() {
	if op.Command.Flags&command.Writes != 0 && op.DB == "admin" {
		return c.Accounts.Changed
	}
	return nil
}

// Knows reports whether there is a rule for a command; a command without one is rejected.
func Knows(name string) bool { return needs[name] != nil }

// Sees reports whether the operation's client may know that a collection exists, or for ""
// a database: whether it has any privilege on it.
func Sees(op *command.Op, db, coll string) bool {
	if !op.Controlled() {
		return true
	}
	p := op.Client.Principal()
	if coll == "" {
		return p != nil && p.MaySomeIn(db)
	}
	return p != nil && p.MaySomeOn(auth.Namespace(db, coll))
}
