package node

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// EnableAccessControl makes every command be checked against the privileges of the user
// who runs it. (Manual: Role-Based Access Control.) It is called before the first
// request.
func (n *Node) EnableAccessControl() { n.Dispatcher.Authorize = n.authorize }

// authorize decides whether op's client may run it (code 13 where not). It is
// Dispatcher.Authorize.
func (n *Node) authorize(ctx context.Context, op *command.Op) (ended func(), err error) {
	if op.Command.Place == command.WithoutData {
		return nil, n.inside(ctx, func(context.Context) error { return n.mayRun(op) })
	}
	if op.Command.Flags&command.Writes != 0 && op.DB == "admin" {
		// It may write to the collections of users and roles.
		ended = n.accounts.Changed
	}
	return ended, n.mayRun(op)
}

// mayRun returns the error for a client that may not run op, or nil.
func (n *Node) mayRun(op *command.Op) error {
	p, err := n.accounts.Current(op.Client)
	if err != nil {
		return err
	}
	list, known := needs[op.Command.Name]
	if strings.HasPrefix(op.Command.Name, "_configsvr") || strings.HasPrefix(op.Command.Name, "_shardsvr") {
		list, known = clusterNeeds(auth.Internal), true // the parts of a cluster ask each other
	}
	if p == nil {
		if n.accounts.MakesFirst(op) {
			return nil
		}
		return mongoerr.New(mongoerr.Unauthorized, "Command %s requires authentication", op.Name)
	}
	if known {
		op.Needs = list(n, op)
	}
	if !known || !p.MayAll(op.Needs) {
		return mongoerr.New(mongoerr.Unauthorized, "not authorized on %s to execute command %s", op.DB, op.ShownCommand())
	}
	return nil
}

// sees says whether the operation's client may know that a collection exists:
// whether it has any privilege on it.
func (n *Node) sees(op *command.Op, db, coll string) bool {
	if !op.Controlled() {
		return true
	}
	p := op.Client.Principal()
	if coll == "" {
		return p != nil && p.MaySomeIn(db)
	}
	return p != nil && p.MaySomeOn(auth.Namespace(db, coll))
}
