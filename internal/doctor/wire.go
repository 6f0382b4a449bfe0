package doctor

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

// Server is a server that is asked.
type Server interface {
	// Run runs a command on a database, and returns the reply. Errors: the server's, as
	// *mongoerr.Error, and those of the way to it.
	Run(ctx context.Context, db string, command bson.Doc) (bson.Doc, error)
	Close() error
}

// ErrElsewhere is the error of opening a server to which whoever examines has no way: one who asks
// by the connection of a client of one server has its own alone. It says nothing of the server.
var ErrElsewhere = errors.New("it is not asked from here")

// Open connects to the server at an address. Errors: ErrElsewhere; those of the way to it.
type Open func(ctx context.Context, address string) (Server, error)

// OverWire connects with the user and the encryption of a connection string.
func OverWire(uri *client.URI) Open {
	return func(ctx context.Context, address string) (Server, error) {
		c, _, err := uri.At(address).Connect(ctx)
		if err != nil {
			return nil, err
		}
		return overWire{c}, nil
	}
}

type overWire struct{ *client.Conn }

func (s overWire) Run(ctx context.Context, db string, command bson.Doc) (bson.Doc, error) {
	return s.Conn.Run(ctx, db, command)
}
