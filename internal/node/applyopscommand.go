package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/schema"
)

// ddlEntries are the commands of entries that run as the command of that name, with the
// errors that mean that the entry was applied before.
var ddlEntries = map[string][]mongoerr.Code{
	"drop":            {mongoerr.NamespaceNotFound},
	"dropDatabase":    {mongoerr.NamespaceNotFound},
	"dropIndexes":     {mongoerr.NamespaceNotFound, mongoerr.IndexNotFound},
	"deleteIndexes":   {mongoerr.NamespaceNotFound, mongoerr.IndexNotFound},
	"collMod":         {mongoerr.NamespaceNotFound, mongoerr.IndexNotFound},
	"convertToCapped": {mongoerr.NamespaceNotFound},
}

// refusedEntries are the commands of entries that no applyOps may have.
var refusedEntries = map[string]*mongoerr.Error{
	"commitTransaction": mongoerr.New(50987, "commitTransaction is only used internally by secondaries."),
	"abortTransaction":  mongoerr.New(50972, "abortTransaction is only used internally by secondaries."),
}

func init() {
	for _, name := range []string{"createIndexes", "startIndexBuild", "commitIndexBuild", "abortIndexBuild"} {
		refusedEntries[name] = mongoerr.New(mongoerr.CommandNotSupported, "The %s operation is not supported in applyOps mode", name)
	}
	for _, name := range []string{"dbCheck", "importCollection", "createGlobalIndex", "dropGlobalIndex", "modifyCollectionShardingIndexCatalog"} {
		refusedEntries[name] = mongoerr.New(mongoerr.CommandNotSupported, "The %s operation is not supported by this server", name)
	}
}

// command applies {op: "c", ns: "db.$cmd", o: {command: …}}.
func (a *applying) command(ctx context.Context, ns schema.Namespace, e *command.Args) error {
	if ns.DB == "" || ns.Coll == "" || schema.ValidateDatabase(ns.DB) != nil {
		return mongoerr.New(mongoerr.InvalidNamespace, "invalid ns: %s", ns)
	}
	if c := a.n.Catalog.Lookup(ns); c != nil && c.IsView() {
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "applyOps not supported on view:%s", ns)
	}
	if err := a.op.Auditable(); err != nil {
		return err
	}
	o := e.Doc("o")
	name, v := o.First()
	acceptable, runs := ddlEntries[name]
	switch {
	case name == "applyOps":
		_, err := a.all(ctx, o)
		return err
	case name == "create":
		return a.create(ctx, ns.DB, o, e)
	case name == "renameCollection":
		return a.rename(ctx, o, e)
	case refusedEntries[name] != nil:
		return refusedEntries[name]
	case !runs:
		return mongoerr.New(mongoerr.BadValue, "Unknown oplog entry command type: %s Object field: %s", name, name)
	}
	if id, ok := e.UUID("ui"); ok && name != "dropDatabase" {
		c := a.n.Catalog.LookupUUID(id)
		if c == nil {
			return nil // it is gone
		}
		if c.Namespace.DB != ns.DB {
			return mongoerr.New(3318200, "Namespace '%s' and UUID '%s' point to different collections", ns, catalog.UUID(id))
		}
		v = bson.String(c.Namespace.Coll)
	}
	b := new(bson.Builder).Value(name, v)
	for field, v := range o.All() {
		if field != name {
			b.Value(field, v)
		}
	}
	return a.run(ctx, ns.DB, b.Finish(), acceptable...)
}

// run runs a command as the client's own. An acceptable error is none.
func (a *applying) run(ctx context.Context, db string, body bson.Doc, acceptable ...mongoerr.Code) error {
	name, _ := body.First()
	c := a.n.Dispatcher.Registry.Lookup(name)
	inner, err := a.inner(c, db, body)
	if err == nil {
		err = c.Run(ctx, inner)
		inner.AuditEnd(err)
	}
	return accept(err, acceptable...)
}

// inner is a command within the applyOps.
func (a *applying) inner(c *command.Command, db string, body bson.Doc) (*command.Op, error) {
	if err := a.op.MayWrite(db); err != nil {
		return nil, err
	}
	op := a.op
	inner := &command.Op{
		DB: db, NS: db + ".$cmd", Name: c.Name, Command: c, Body: body, Client: op.Client, Dispatcher: op.Dispatcher, Session: op.Session,
		Start: op.Start, WriteConcern: op.WriteConcern, Reply: new(bson.Builder),
	}
	inner.EndWith(op)
	var err error
	if c.Fields != nil {
		inner.Args, err = command.Parse(inner, c.Fields)
	}
	return inner, err
}

func accept(err error, codes ...mongoerr.Code) error {
	for _, code := range codes {
		if mongoerr.Is(err, code) {
			return nil
		}
	}
	return err
}

// create applies {create: name, options, idIndex}. With a UUID a collection of that UUID gets
// the name, and another one that has it is put out of the way, as mongod does: a later entry
// gives that its own.
func (a *applying) create(ctx context.Context, db string, o bson.Doc, e *command.Args) error {
	_, v := o.First()
	if v.Type == bson.TypeString && v.Str() == schema.ViewsCollection {
		return nil // it comes with the first view
	}
	inner, err := a.inner(a.n.Dispatcher.Registry.Lookup("create"), db, o)
	if err != nil {
		return err
	}
	ns := namespace(inner)
	if err := ns.CheckArchive(); err != nil {
		return err // before what has the name is put away
	}
	id, ok := e.UUID("ui")
	if !ok || o.Has("viewOn") { // nothing refers to a view by its UUID
		return accept(a.createAs(ctx, inner, catalog.UUID{}), mongoerr.NamespaceExists)
	}
	named, owner := a.n.Catalog.Lookup(ns), a.n.Catalog.LookupUUID(id)
	if owner != nil && owner.Namespace == ns {
		return nil
	}
	if owner != nil && owner.Namespace.DB != db {
		return mongoerr.New(40655, "Invalid name %s for UUID %s", ns, catalog.UUID(id))
	}
	if named != nil && named.SeenAsView() {
		return nil // as where there is no UUID
	}
	if named != nil {
		if err := a.putAway(ctx, named, "create"); err != nil {
			return err
		}
	}
	if owner == nil {
		return accept(a.createAs(ctx, inner, id), mongoerr.NamespaceExists)
	}
	return a.renameTo(ctx, owner, ns, false, true)
}

func (a *applying) createAs(ctx context.Context, inner *command.Op, id catalog.UUID) error {
	err := a.n.createAs(ctx, inner, id)
	inner.AuditEnd(err)
	return err
}

// putAway gives a collection a temporary name.
func (a *applying) putAway(ctx context.Context, c *catalog.Collection, by string) error {
	tmp := schema.Namespace{DB: c.Namespace.DB, Coll: "tmp" + bson.NewUUID().String()[:5] + "." + by}
	return a.renameTo(ctx, c, tmp, false, true)
}

func (a *applying) renameTo(ctx context.Context, c *catalog.Collection, to schema.Namespace, dropTarget, stayTemp bool) error {
	rename := a.n.Catalog.Rename
	if stayTemp {
		rename = a.n.Catalog.RenameTemporary
	}
	target := a.n.Catalog.Lookup(to)
	if _, err := rename(ctx, c.Namespace, to, dropTarget); err != nil {
		return err
	}
	a.op.AuditedRename(c.Namespace.String(), to.String())
	a.n.invalidate(c)
	if target != nil {
		a.n.invalidate(target)
	}
	return nil
}

// rename applies {renameCollection: "db.a", to: "db.b", stayTemp, dropTarget}, where
// dropTarget is true or the UUID of the collection that had the name.
func (a *applying) rename(ctx context.Context, o bson.Doc, e *command.Args) error {
	_, source := o.First()
	target, drop := o.Lookup("to"), o.Lookup("dropTarget")
	if source.Type != bson.TypeString || target.Type != bson.TypeString {
		return mongoerr.New(mongoerr.TypeMismatch, "'renameCollection' and 'to' must be of type String")
	}
	to := schema.ParseNamespace(target.Str())
	from := schema.ParseNamespace(source.Str())
	c := a.n.Catalog.Lookup(from)
	if id, ok := e.UUID("ui"); ok {
		if owner := a.n.Catalog.LookupUUID(id); owner != nil && owner.Namespace.DB == from.DB {
			c = owner
		}
	}
	if c == nil || c.Namespace == to {
		return nil // it was renamed, or is gone
	}
	if err := CheckRename(c.Namespace.String(), to.String()); err != nil {
		return err
	}
	for _, ns := range []schema.Namespace{c.Namespace, to} {
		if err := a.op.MayWrite(ns.DB); err != nil {
			return err
		}
	}
	if err := a.n.Catalog.CheckCase(to.DB); err != nil {
		return err
	}
	if err := a.n.checkArchiveMoves(ctx, c, to); err != nil {
		return err
	}
	drops := drop.Truthy()
	if named := a.n.Catalog.Lookup(to); named != nil {
		if drop.Type == bson.TypeBinary {
			_, content := drop.Binary()
			drops = len(content) == 16 && named.UUID == catalog.UUID(content)
		}
		if named.SeenAsView() {
			return nil // mongod's error 48 means that it was applied before
		}
		if !drops {
			if err := a.putAway(ctx, named, "renameCollection"); err != nil {
				return err
			}
		}
	}
	return a.renameTo(ctx, c, to, drops, o.Lookup("stayTemp").Truthy())
}

// view applies an entry about a document of system.views, {_id: "db.view", viewOn, pipeline,
// collation}: the view is defined, changed or dropped.
func (a *applying) view(ctx context.Context, db string, e *command.Args) error {
	id := e.Doc("o").Lookup("_id")
	if e.Str("op") == "u" {
		id = bson.Value{}
		if e.Has("o2") {
			id = e.Doc("o2").Lookup("_id")
		}
	}
	if id.IsMissing() {
		return missingID("operation", e)
	}
	ns := schema.Namespace{}
	if id.Type == bson.TypeString {
		ns = schema.ParseNamespace(id.Str())
	}
	if err := a.op.Auditable(); err != nil {
		return err
	}
	if ns.DB != db || ns.Validate() != nil {
		return mongoerr.New(mongoerr.InvalidViewDefinition, "found invalid view definition %s while applying an operation on %s.system.views", id, db)
	}
	view := a.n.Catalog.Lookup(ns)
	if view != nil && !view.IsView() {
		if e.Str("op") == "d" {
			return nil
		}
		return mongoerr.New(mongoerr.NamespaceExists, "namespace %s already exists, but is a collection rather than a view", ns)
	}
	if e.Str("op") == "d" {
		return a.run(ctx, db, new(bson.Builder).String("drop", ns.Coll).Finish(), mongoerr.NamespaceNotFound)
	}
	doc := e.Doc("o")
	if e.Str("op") == "u" {
		u, err := update.ParseOplog(doc)
		if err != nil {
			return err
		}
		was := bson.Doc(new(bson.Builder).Value("_id", id).Finish())
		if view != nil {
			was = viewDocument(view)
		}
		if doc, _, err = u.Apply(was, &update.Context{}); err != nil {
			return err
		}
	}
	if view != nil && string(viewDocument(view)) == string(doc) {
		return nil
	}
	b := new(bson.Builder)
	if view != nil {
		b.String("collMod", ns.Coll)
	} else {
		b.String("create", ns.Coll)
	}
	b.Value("viewOn", doc.Lookup("viewOn")).Value("pipeline", doc.Lookup("pipeline"))
	if view == nil {
		b.Value("collation", doc.Lookup("collation"))
	}
	return a.run(ctx, db, b.Finish())
}
