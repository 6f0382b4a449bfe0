package node

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

var renameFields = command.NewFields("renameCollection",
	command.Value(command.String("").Required()),
	command.String("to").Required(),
	command.OneOf("dropTarget", bson.TypeBool, bson.TypeBinary).NotNull(),
	command.Bool("stayTemp"),
	command.UUID("collectionUUID"),
)

// renameCollection answers {renameCollection: "db.a", to: "db.b"}. (Manual:
// database command renameCollection.)
func (n *Node) renameCollection() *command.Command {
	return &command.Command{
		Name: "renameCollection", Fields: renameFields, Flags: ddlFlags | command.AdminOnly,
		Help: " example: { renameCollection: foo.a, to: bar.b }",
		Run:  n.runRenameCollection,
	}
}

func (n *Node) runRenameCollection(ctx context.Context, op *command.Op) error {
	_, name := op.Body.First()
	if err := CheckRename(name.Str(), op.Args.Str("to")); err != nil {
		return err
	}
	from, to := schema.ParseNamespace(name.Str()), schema.ParseNamespace(op.Args.Str("to"))
	op.SetNS(from.String())
	for _, ns := range []schema.Namespace{from, to} {
		if err := op.MayWrite(ns.DB); err != nil {
			return err
		}
	}
	if err := n.Catalog.CheckCase(to.DB); err != nil {
		return err
	}
	c, err := n.renameSource(from, op)
	if err != nil {
		return err
	}
	drop, id, err := DropTarget(from, to, op.Args.Value("dropTarget"))
	if err == nil {
		err = n.checkUUID(to.DB, to.Coll, n.Catalog.Lookup(to), id)
	}
	if err != nil {
		return err
	}
	if c == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "Source collection %s does not exist", from)
	}
	target := n.Catalog.Lookup(to)
	if target != nil {
		switch {
		case target.SeenAsView():
			return mongoerr.New(mongoerr.NamespaceExists, "a view already exists with that name: %s", to)
		case !drop:
			return mongoerr.New(mongoerr.NamespaceExists, "target namespace exists")
		}
	}
	if err := n.checkArchiveMoves(ctx, c, to); err != nil {
		return err
	}
	rename := n.Catalog.Rename
	if op.Args.Bool("stayTemp") {
		rename = n.Catalog.RenameTemporary
	}
	if !c.CanBecome(to) {
		rename = n.renameByCopy
	}
	if _, err = rename(ctx, from, to, drop); err != nil {
		return err
	}
	n.invalidate(c)
	if target != nil {
		n.invalidate(target)
	}
	return nil
}

// CheckRename checks both names of a rename. Errors: 20, 73.
func CheckRename(from, to string) error {
	var both [2]schema.Namespace
	for i, name := range []string{from, to} {
		ns, err := renamed(name)
		if err != nil {
			return err
		}
		both[i] = ns
	}
	for _, ns := range both {
		if err := renamable(ns); err != nil {
			return err
		}
	}
	if both[0] == both[1] {
		return mongoerr.New(mongoerr.IllegalOperation, "Can't rename a collection to itself")
	}
	return nil
}

// renamed parses a name given to renameCollection. Errors: 73, 20 for a dollar
// sign.
func renamed(name string) (schema.Namespace, error) {
	ns := schema.ParseNamespace(name)
	if strings.IndexByte(name, 0) >= 0 {
		return ns, mongoerr.New(mongoerr.InvalidNamespace, "namespaces cannot have embedded null characters")
	}
	if strings.IndexByte(name, '$') >= 0 && ns.Coll != "" && ns.DB != "" {
		return ns, mongoerr.New(mongoerr.IllegalOperation, "error with namespace %s: Invalid namespace: %s", name, name)
	}
	if err := ns.Validate(); err != nil {
		return ns, mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", name)
	}
	return ns, nil
}

// renamable refuses names that no rename may have at either end: error 20.
func renamable(ns schema.Namespace) error {
	if len(ns.String()) > schema.MaxNamespace {
		return mongoerr.New(mongoerr.IllegalOperation, "error with namespace %s: Fully qualified namespace is too long. Namespace: %s Max: %d",
			ns, ns, schema.MaxNamespace)
	}
	if ns.IsSystem() {
		return mongoerr.New(mongoerr.IllegalOperation, "renaming system collections is not allowed: %s", ns)
	}
	if ns.IsOplog() {
		return mongoerr.New(mongoerr.IllegalOperation, "can't rename live oplog while replicating: %s", ns)
	}
	return nil
}

// renameSource finds the collection to rename; nil if there is none.
func (n *Node) renameSource(from schema.Namespace, op *command.Op) (*catalog.Collection, error) {
	c := n.Catalog.Lookup(from)
	if err := n.checkUUID(from.DB, from.Coll, c, op.Args.Value("collectionUUID")); err != nil {
		return nil, err
	}
	if c != nil && c.SeenAsView() {
		return nil, mongoerr.New(mongoerr.CommandNotSupportedOnView, "cannot rename view: %s", from)
	}
	return c, nil
}

// DropTarget reads dropTarget: a bool, or the UUID that the target must have, which is missing for
// a bool. Errors: 72, 207.
func DropTarget(from, to schema.Namespace, v bson.Value) (drop bool, id bson.Value, err error) {
	if v.Type != bson.TypeBinary {
		return v.Truthy(), id, nil
	}
	if sub, content := v.Binary(); sub != 4 || len(content) != 16 {
		return false, id, mongoerr.New(mongoerr.InvalidUUID, "uuid must be a 16-byte binary field with UUID (4) subtype")
	}
	if from.DB != to.DB {
		return false, id, mongoerr.New(mongoerr.InvalidOptions, "dropTarget: UUID is not supported for a rename across databases")
	}
	return true, v, nil
}
