package node

import (
	"context"
	"net"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// EnableAccessControl has every command checked against the privileges of who
// runs it. (Manual: Role-Based Access Control.) It is called before the first
// request.
func (n *Node) EnableAccessControl() { n.Dispatcher.Authorize = n.authorize }

// controlled says whether access is controlled for the operation.
func controlled(op *command.Op) bool { return op.Dispatcher.Authorize != nil && !op.Client.Internal }

// authorize decides whether op's client may run it (code 13 where not). It is
// Dispatcher.Authorize.
func (n *Node) authorize(_ context.Context, op *command.Op) (ended func(), err error) {
	if op.Command.Flags&command.Writes != 0 && op.DB == "admin" {
		// It may write to the collections of users and roles.
		ended = func() { n.accounts.generation.Add(1) }
	}
	return ended, n.mayRun(op)
}

// mayRun is the error why op's client may not run it, or nil.
func (n *Node) mayRun(op *command.Op) error {
	p, err := n.currentPrincipal(op.Client)
	if err != nil {
		return err
	}
	list, known := needs[op.Command.Name]
	if p == nil {
		if n.firstUser(op) {
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

// currentPrincipal is who the client has authenticated as, as users and roles
// are now. A user who is gone, was made anew under its name, or must not come
// from where the client is any more, is logged out.
func (n *Node) currentPrincipal(c *command.Client) (*auth.Principal, error) {
	p := c.Principal()
	if p == nil || p.Generation == n.accounts.generation.Load() {
		return p, nil
	}
	fresh, err := n.principal(p.User.Name)
	if err != nil {
		return nil, err
	}
	if fresh != nil && (!fresh.User.SameAs(p.User) || fresh.CheckAddress(c.Remote, c.Local) != nil) {
		fresh = nil
	}
	c.SetPrincipal(fresh)
	return fresh, nil
}

// firstUser is the localhost exception: as long as there are no users, who
// comes from this machine may make the first user or role of admin.
func (n *Node) firstUser(op *command.Op) bool {
	if op.Command.Name != "createUser" && op.Command.Name != "createRole" {
		return false
	}
	if op.DB != "admin" || !fromThisMachine(op.Client) || !n.knobs.localhostBypass.Load() {
		return false
	}
	c := n.Catalog.Lookup(usersNamespace)
	return c == nil || c.Count() == 0
}

func fromThisMachine(c *command.Client) bool {
	if c.Remote == command.UnixSocket {
		return true
	}
	ip := net.ParseIP(c.RemoteHost())
	return ip != nil && ip.IsLoopback()
}

// sees says whether the operation's client may know that a collection exists:
// it may do something with it.
func (n *Node) sees(op *command.Op, db, coll string) bool {
	if !controlled(op) {
		return true
	}
	p := op.Client.Principal()
	if coll == "" {
		return p != nil && p.MaySomeIn(db)
	}
	return p != nil && p.MaySomeOn(auth.Namespace(db, coll))
}

// may says whether the operation's client has what is needed.
func may(op *command.Op, need auth.Need) bool {
	if !controlled(op) {
		return true
	}
	p := op.Client.Principal()
	return p != nil && p.May(need)
}
