package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// replSetSyncFrom is refused: members always get the log from the primary.
func (n *Node) replSetSyncFrom() *command.Command {
	return &command.Command{
		Name: "replSetSyncFrom", Help: "{ replSetSyncFrom : \"host:port\" }\nChange who this member is syncing from.",
		Run: func(context.Context, *command.Op) error {
			return mongoerr.New(mongoerr.CommandNotSupported, "replSetSyncFrom is not supported: members get the log from the primary")
		},
	}
}
