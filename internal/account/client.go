package account

import (
	"context"
	"net"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// Changed makes the principals of all clients be resolved again: users and
// roles may have been written.
func (s *Store) Changed() { s.generation.Add(1) }

// Current returns the client's principal by the current users and roles. A user
// who was dropped, was created again under the same name, or may no longer
// connect from the client's address, is logged out.
func (s *Store) Current(ctx context.Context, c *command.Client) (*auth.Principal, error) {
	p := c.Principal()
	if p == nil || p.Generation == s.generation.Load() {
		return p, nil
	}
	fresh, err := s.Principal(ctx, p.User.Name)
	if err != nil {
		return nil, err
	}
	if fresh != nil && (!fresh.User.SameAs(p.User) || fresh.CheckAddress(c.Remote, c.Local) != nil) {
		fresh = nil
	}
	c.SetPrincipal(fresh)
	return fresh, nil
}

// bootstraps are the commands on admin with which a server is set up before it has users.
var bootstraps = map[string]bool{
	"createUser": true, "createRole": true, "replSetInitiate": true, "replSetReconfig": true, "replSetGetStatus": true, "addShard": true,
}

// Bootstraps is the localhost exception: as long as there are no users, a client on this
// machine may initiate the set, add shards, and create the first user or role of admin.
// (Manual: "Localhost Exception", "Deploy Replica Set With Keyfile Authentication".)
func (s *Store) Bootstraps(ctx context.Context, op *command.Op) (bool, error) {
	if !bootstraps[op.Command.Name] {
		return false, nil
	}
	if op.DB != "admin" || !fromThisMachine(op.Client) || !s.localhostBypass.Load() {
		return false, nil
	}
	if s.source != nil {
		some, err := s.source.HasUsers(ctx)
		return !some && err == nil, err
	}
	c := s.catalog.Lookup(usersNamespace)
	return c == nil || c.Count() == 0, nil
}

func fromThisMachine(c *command.Client) bool {
	if c.Remote == command.UnixSocket {
		return true
	}
	ip := net.ParseIP(c.RemoteHost())
	return ip != nil && ip.IsLoopback()
}
