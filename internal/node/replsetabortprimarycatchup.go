package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// replSetAbortPrimaryCatchUp finds nothing to abort: an elected primary has
// everything that is committed.
func (n *Node) replSetAbortPrimaryCatchUp() *command.Command {
	return &command.Command{
		Name: "replSetAbortPrimaryCatchUp", Help: "{ replSetAbortPrimaryCatchUp : 1 }\nAbort primary catch-up mode; immediately finish the transition to primary.",
		Run: func(context.Context, *command.Op) error {
			return mongoerr.New(mongoerr.IllegalOperation, "The node is not in catch-up mode.")
		},
	}
}
