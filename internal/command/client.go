package command

import (
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Client is who sends requests: one connection, or something inside the server.
// The front end makes it when the connection opens.
type Client struct {
	// ConnectionID counts connections since start; "conn" and the number is its
	// name in logs and currentOp. 0 is the server itself.
	ConnectionID int64
	// Remote and Local are "host:port" of the two ends, "" inside the server.
	Remote, Local string
	// Internal says that the client is the server itself and may do everything.
	Internal bool

	metadata atomic.Pointer[Metadata]
}

// Metadata is what the client told of itself in its first hello.
type Metadata struct {
	Document bson.Doc // application, driver, os, platform …
	AppName  string   // application.name
}

// Metadata returns what the client told of itself, or nil.
func (c *Client) Metadata() *Metadata { return c.metadata.Load() }

// SetMetadata keeps what the first hello of the connection said; it returns
// false where it is known already.
func (c *Client) SetMetadata(m *Metadata) bool { return c.metadata.CompareAndSwap(nil, m) }
