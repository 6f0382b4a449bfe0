package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

// findOnView, countOnView and distinctOnView answer for a namespace that is a
// view, by an aggregation on what it is a view of.
func (n *Node) findOnView(ctx context.Context, op *command.Op) (bool, error)     { return false, nil }
func (n *Node) countOnView(ctx context.Context, op *command.Op) (bool, error)    { return false, nil }
func (n *Node) distinctOnView(ctx context.Context, op *command.Op) (bool, error) { return false, nil }

func (n *Node) explainAggregate(ctx context.Context, op *command.Op, body bson.Doc, v exec.Verbosity) error {
	return mongoerr.New(mongoerr.CommandNotSupported, "aggregate")
}
func (n *Node) serverInfo() bson.Doc { return bson.Empty }
