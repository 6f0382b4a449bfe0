package account

import (
	"context"
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/command"
)

// getUserCacheGeneration tells the routers of a cluster whether users and roles may have
// changed since they asked last: the id of this run of the server with the count of
// changes. (mongod: _getUserCacheGeneration.)
func (s *Store) getUserCacheGeneration() *command.Command {
	return &command.Command{
		Name: "_getUserCacheGeneration", Flags: command.AdminOnly, Fields: command.NewFields("_getUserCacheGeneration"), Help: "internal",
		Run: func(_ context.Context, op *command.Op) error {
			id := op.Dispatcher.ProcessID
			binary.BigEndian.PutUint32(id[8:], uint32(s.generation.Load()))
			op.Reply.ObjectID("cacheGeneration", id)
			return nil
		},
	}
}
