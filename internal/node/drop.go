package node

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/catalog"
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
	if err := n.checkDroppable(op, c); err != nil {
		return err
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

// checkDroppable refuses to drop what the server needs. Errors: 20 and, for
// system.views while there are time-series collections, 125.
func (n *Node) checkDroppable(op *command.Op, c *catalog.Collection) error {
	switch {
	case c == nil || !c.Namespace.IsSystem():
		return nil
	case c.Namespace.Coll == schema.ProfileCollection:
		if op.Dispatcher.Profiler.Settings(op.DB).Level != 0 {
			return mongoerr.New(mongoerr.IllegalOperation, "turn off profiling before dropping system.profile collection")
		}
	case c.Namespace.Coll == schema.ViewsCollection:
		if slices.ContainsFunc(n.Catalog.Collections(op.DB), (*catalog.Collection).IsTimeseries) {
			return mongoerr.New(mongoerr.CommandFailed, "cannot drop collection %s when time-series collections are present", c.Namespace)
		}
	case !c.Namespace.IsDroppable():
		return mongoerr.New(mongoerr.IllegalOperation, "cannot drop system collection %s", c.Namespace)
	}
	return nil
}
