package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

var dropFields = command.NewFields("drop",
	command.Collection(),
	command.UUID("collectionUUID"),
)

// drop answers {drop: collection}; one that does not exist is dropped with
// success. (Manual: database command drop.)
func (n *Node) drop() *command.Command {
	return &command.Command{
		Name: "drop", Fields: dropFields, Flags: ddlFlags | command.APIv1,
		Help: "drop a collection\n{drop : <collectionName>}",
		Run:  n.runDrop,
	}
}

func (n *Node) runDrop(ctx context.Context, op *command.Op) error {
	ns := namespace(op)
	c := n.Catalog.Lookup(ns)
	if err := n.checkUUID(ns.DB, ns.Coll, c, op.Args.Value("collectionUUID")); err != nil {
		return err
	}
	if ns.IsOplog() {
		return mongoerr.New(mongoerr.OplogOperationUnsupported, "can't drop live oplog while replicating")
	}
	if ns.Coll == schema.ViewsCollection {
		for _, view := range n.viewsOf(ns.DB) {
			if _, err := n.Catalog.Drop(ctx, view.Namespace); err != nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
				return err
			}
		}
	}
	c, err := n.Catalog.Drop(ctx, ns)
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	n.invalidate(c)
	op.Gone = true
	if c.IsView() {
		if err := n.showView(ctx, ns); err != nil {
			return err
		}
	} else if !c.IsTimeseries() {
		op.Reply.Int32("nIndexesWas", int32(countedIndexes(c)))
	}
	op.Reply.String("ns", ns.String())
	return nil
}
