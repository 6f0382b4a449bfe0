package command

import (
	"cmp"
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/certificate"
)

// UnixSocket is the Remote of a client on a unix socket, which has no address.
const UnixSocket = "anonymous unix socket"

// Client is the source of requests: a connection, or a component of the server.
// It sends one request at a time.
type Client struct {
	// ConnectionID counts connections since start; "conn" and the number is its
	// name in logs and currentOp. 0 is the server itself.
	ConnectionID int64
	// Desc names a client inside the server ("TTLMonitor"); "" for connections.
	Desc string
	// Remote and Local are "host:port" of the two ends, "" inside the server.
	Remote, Local string
	// Protocol is the protocol that it speaks, as logs and profile show it; "" for
	// op_msg.
	Protocol string
	// Encrypted says that it speaks TLS, and Holder who holds the certificate that it has
	// shown.
	Encrypted bool
	Holder    certificate.Holder
	// AskedFor is the host name that it has asked for in TLS (SNI), "" for none.
	AskedFor string
	// Internal says that the client is the server itself and may do everything.
	Internal bool

	// Conversation is the authentication that the client has begun, or nil. Only the
	// client's own commands use it.
	Conversation *Conversation

	// Source is what an auditor has made of the client for its events.
	Source atomic.Pointer[Source]

	principal atomic.Pointer[auth.Principal]
	metadata  atomic.Pointer[Metadata]
	current   atomic.Pointer[Op]     // the running operation, or nil
	namespace atomic.Pointer[string] // of the previous command
	hellos    atomic.Int64
	worked    atomic.Bool // it has run more than hello
	uuid      sync.Once
	id        [16]byte
}

// Source is who a client is, as events have it, while it has a user.
type Source struct {
	Principal *auth.Principal
	Text      []byte
}

// Conversation is an authentication in progress.
type Conversation struct {
	*auth.Conversation
	// DB is the database that the user authenticates on.
	DB string
	// Speculative says that it began in a hello command.
	Speculative bool
}

// protocol is Protocol with its default.
func (c *Client) protocol() string { return cmp.Or(c.Protocol, "op_msg") }

// clientKey is the key of a context's Client.
type clientKey struct{}

// WithClient returns ctx with the client on whose behalf something is done.
func WithClient(ctx context.Context, c *Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// ClientOf returns the client that WithClient put into ctx, or nil.
func ClientOf(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}

// Principal returns the user that the client has authenticated as, or nil.
func (c *Client) Principal() *auth.Principal { return c.principal.Load() }

// SetPrincipal makes p the user that the client has authenticated as; nil for none.
func (c *Client) SetPrincipal(p *auth.Principal) { c.principal.Store(p) }

// mayAll reports whether the client's users have all the privileges that are needed.
func (c *Client) mayAll(needs []auth.Need) bool {
	p := c.Principal()
	return p != nil && p.MayAll(needs)
}

// writeUsers appends the client's authenticated users, an array.
func (c *Client) writeUsers(b *bson.Builder, name string) {
	b.OpenArray(name)
	if p := c.Principal(); p != nil {
		b.OpenDoc("0")
		p.User.Name.Write(b)
		b.Close()
	}
	b.Close()
}

// Owner is the digest of the client's user, which its sessions carry.
func (c *Client) Owner() [32]byte {
	if p := c.Principal(); p != nil {
		return p.Digest
	}
	return noUser
}

// Metadata is what the client said about itself in its first hello.
type Metadata struct {
	Document bson.Doc // application, driver, os, platform …
	AppName  string   // application.name
}

// Metadata returns what the client said about itself, or nil.
func (c *Client) Metadata() *Metadata { return c.metadata.Load() }

// AppName returns the client's application.name, or "".
func (c *Client) AppName() string {
	if m := c.metadata.Load(); m != nil {
		return m.AppName
	}
	return ""
}

// RemoteHost returns Remote without its port.
func (c *Client) RemoteHost() string {
	if host, _, err := net.SplitHostPort(c.Remote); err == nil {
		return host
	}
	return c.Remote
}

// SetMetadata stores what the first hello of the connection said. It returns false
// if there was one before.
func (c *Client) SetMetadata(m *Metadata) bool { return c.metadata.CompareAndSwap(nil, m) }

// UUID returns the client's own id, as connectionStatus prints it.
func (c *Client) UUID() [16]byte {
	c.uuid.Do(func() { c.id = bson.NewUUID() })
	return c.id
}

// FirstHello reports whether this is the first hello of the client, and records that there
// was one.
func (c *Client) FirstHello() bool { return c.hellos.Add(1) == 1 }

// maxKeptNamespace is the longest namespace that a client keeps, in bytes.
const maxKeptNamespace = 255

// namespaceOf returns "db.coll". It reuses the string of the previous command if equal.
func (c *Client) namespaceOf(db, coll string) string {
	last := c.namespace.Load()
	if last != nil && len(*last) == len(db)+1+len(coll) && (*last)[:len(db)] == db && (*last)[len(db)] == '.' && (*last)[len(db)+1:] == coll {
		return *last
	}
	ns := db + "." + coll
	if len(ns) <= maxKeptNamespace {
		c.namespace.Store(&ns)
	}
	return ns
}

// Current returns the operation that the client is running, or nil.
func (c *Client) Current() *Op { return c.current.Load() }

// Clients is the table of all clients and, through them, of all running operations. The
// zero value is empty.
type Clients struct {
	mu struct {
		sync.Mutex
		all map[*Client]struct{}
	}
	lastOp  atomic.Int32
	created atomic.Int64
}

// Connect adds a client to the table. The caller calls Disconnect in the end.
func (cs *Clients) Connect(c *Client) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.mu.all == nil {
		cs.mu.all = map[*Client]struct{}{}
	}
	cs.mu.all[c] = struct{}{}
	if c.ConnectionID != 0 {
		cs.created.Add(1)
	}
}

// Disconnect removes a client from the table.
func (cs *Clients) Disconnect(c *Client) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.mu.all, c)
}

// All returns the clients in order of their connections, those inside the
// server first.
func (cs *Clients) All() []*Client {
	cs.mu.Lock()
	all := make([]*Client, 0, len(cs.mu.all))
	for c := range cs.mu.all {
		all = append(all, c)
	}
	cs.mu.Unlock()
	slices.SortFunc(all, func(a, b *Client) int {
		return cmp.Or(cmp.Compare(a.ConnectionID, b.ConnectionID), cmp.Compare(a.Desc, b.Desc))
	})
	return all
}

// Ops returns the running operations.
func (cs *Clients) Ops() []*Op {
	var ops []*Op
	for _, c := range cs.All() {
		if op := c.Current(); op != nil {
			ops = append(ops, op)
		}
	}
	return ops
}

// nextOpID gives the next opid: positive, and again from 1 after 2^31 − 1.
func (cs *Clients) nextOpID() int32 {
	for {
		if id := cs.lastOp.Add(1); id > 0 {
			return id
		}
		cs.lastOp.CompareAndSwap(cs.lastOp.Load(), 0)
	}
}
