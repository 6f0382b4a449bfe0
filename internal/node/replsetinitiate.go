package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/repl"
)

// replSetInitiate founds a set: {replSetInitiate: configuration}, where an empty one
// means a set of this member alone. (Manual: database command replSetInitiate.)
func (n *Node) replSetInitiate() *command.Command {
	return &command.Command{
		Name: "replSetInitiate", Run: n.runReplSetInitiate,
		Help: "Initiate/christen a replica set.\nhttp://dochub.mongodb.org/core/replicasetcommands",
	}
}

func (n *Node) runReplSetInitiate(ctx context.Context, op *command.Op) error {
	m := n.Dispatcher.Member
	_, v := op.Body.First()
	if v.Type != bson.TypeDocument || v.Doc().IsEmpty() {
		if err := m.Initiate(ctx, nil); err != nil {
			return err
		}
		op.Reply.String("info2", "no configuration specified. Using a default configuration for the set").String("me", m.Host())
		return nil
	}
	c, err := repl.ParseConfig(v.Doc())
	if err != nil {
		return err
	}
	if !v.Doc().Has("version") {
		c.Version = 1
	}
	return m.Initiate(ctx, c)
}
