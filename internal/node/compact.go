package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

var compactFields = command.NewFields("compact",
	command.Bool("dryRun"),
	command.Bool("force"),
	command.SafeInt64("freeSpaceTargetMB").Min(1),
)

// compact answers {compact: collection}: it frees the space that deleted
// documents and index entries take. (Manual: database command compact.)
func (n *Node) compact() *command.Command {
	return &command.Command{
		Name: "compact", Fields: compactFields, Flags: command.Writes | command.ChecksBlock,
		Help: "compact collection\nwarning: this operation has blocking behaviour and is slow. you can cancel with killOp()",
		Run:  n.runCompact,
	}
}

func (n *Node) runCompact(ctx context.Context, op *command.Op) error {
	ns, err := looseNamespace(op)
	if err != nil {
		return err
	}
	c := n.Catalog.Lookup(ns)
	switch {
	case c == nil && n.bucketsOf(ns) == nil:
		return mongoerr.New(mongoerr.NamespaceNotFound, "collection does not exist")
	case c != nil && c.IsView():
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "can't compact a view")
	}
	if op.Args.Bool("dryRun") {
		documents, indexes, err := n.Catalog.Reclaimable(c)
		if err != nil {
			return err
		}
		appendNumber(op.Reply, "estimatedBytesFreed", documents+indexes)
		return nil
	}
	freed := int64(0)
	if c != nil && c.Ident != 0 {
		if freed, err = n.compactCollection(ctx, c); err != nil {
			return err
		}
	}
	appendNumber(op.Reply, "bytesFreed", freed)
	return nil
}

// compactCollection rewrites the documents and the index entries of a
// collection, and returns how many bytes on disk that freed.
func (n *Node) compactCollection(ctx context.Context, c *catalog.Collection) (freed int64, err error) {
	e := n.Catalog.Engine()
	idents := []storage.Ident{c.Ident}
	for _, ix := range c.Indexes() {
		if !ix.Records {
			idents = append(idents, ix.Ident)
		}
	}
	// A table may hold the ends of two keyspaces: compacting the documents also
	// frees space next to them, so everything is measured before, and everything
	// after.
	before, err := diskUsage(e, idents)
	if err != nil {
		return 0, err
	}
	for _, id := range idents {
		whole, err := e.Compact(ctx, id)
		if err != nil {
			return 0, err
		}
		if !whole {
			n.Log.InfoContext(ctx, "Compact stopped early: other compactions are using the same tables", "namespace", c.Namespace.String())
			break
		}
	}
	after, err := diskUsage(e, idents)
	return max(before-after, 0), err
}

// diskUsage returns how many bytes on disk some keyspaces take together.
func diskUsage(e *storage.Engine, idents []storage.Ident) (sum int64, err error) {
	for _, id := range idents {
		n, err := e.DiskUsage(id)
		if err != nil {
			return 0, err
		}
		sum += int64(n)
	}
	return sum, nil
}

// appendNumber appends an int where i fits into one, else a long.
func appendNumber(b *bson.Builder, name string, i int64) {
	if int64(int32(i)) == i {
		b.Int32(name, int32(i))
		return
	}
	b.Int64(name, i)
}

// looseNamespace reads the name of a collection as commands of the old kind do,
// which allow dollar signs: such a collection does not exist.
func looseNamespace(op *command.Op) (schema.Namespace, error) {
	_, v := op.Body.First()
	if v.Type != bson.TypeString {
		return schema.Namespace{}, mongoerr.New(mongoerr.InvalidNamespace, "collection name has invalid type %s", v.Type)
	}
	ns := schema.Namespace{DB: op.DB, Coll: v.Str()}
	if !ns.WellFormed() {
		return ns, mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s.%s'", op.DB, v.Str())
	}
	op.SetCollection(ns.Coll)
	return ns, nil
}
