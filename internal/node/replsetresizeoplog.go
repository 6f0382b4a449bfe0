package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// replSetResizeOplog is refused as long as there is no oplog to resize.
func (n *Node) replSetResizeOplog() *command.Command {
	return &command.Command{
		Name: "replSetResizeOplog", Help: "resize oplog size in MB",
		Run: func(context.Context, *command.Op) error {
			return mongoerr.New(mongoerr.CommandNotSupported, "replSetResizeOplog is not supported: the set's log has no bound of its own")
		},
	}
}
