package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// reIndex answers {reIndex: collection}: it drops all indexes except the one on
// _id and rebuilds them. (Manual: database command reIndex.)
func (n *Node) reIndex() *command.Command {
	return &command.Command{
		Name: "reIndex", Fields: command.NewFields("reIndex", command.Collection()), Flags: command.Writes,
		Help: "re-index a collection (can only be run on a standalone mongod)",
		Run:  n.runReIndex,
	}
}

func (n *Node) runReIndex(ctx context.Context, op *command.Op) error {
	if n.Dispatcher.Member != nil {
		return mongoerr.New(mongoerr.IllegalOperation, "reIndex is only allowed on a standalone mongod instance. Cannot reIndex '%s' while replication is active", op.NS)
	}
	c, err := n.existing(op, "collection does not exist: "+op.NS)
	if err != nil {
		return err
	}
	var specs []bson.Doc
	was := 0
	_, err = n.Catalog.DropIndexes(ctx, c.Namespace, func(c *catalog.Collection) ([]*catalog.Index, error) {
		was = countedIndexes(c)
		again := secondary(c)
		for _, ix := range again {
			specs = append(specs, ix.Spec)
		}
		return again, nil
	})
	if err != nil {
		return err
	}
	if len(specs) > 0 {
		if _, _, err := n.Catalog.CreateIndexes(ctx, c.Namespace, specs); err != nil {
			return err
		}
	}
	op.Reply.Int32("nIndexesWas", int32(was))
	op.Reply.Int32("nIndexes", int32(was)).OpenArray("indexes")
	if now := c.Latest(); now != nil {
		for i, ix := range now.Indexes() {
			op.Reply.Doc(bson.Index(i), ix.ListForm())
		}
	}
	op.Reply.Close()
	return nil
}
