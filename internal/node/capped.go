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

const (
	// copyUnitBytes and copyUnitDocs bound what one unit of a copy writes.
	copyUnitBytes = 4 << 20
	copyUnitDocs  = 1000
	// temporarySuffix is the length of the suffix of a collection's name while it
	// is converted.
	temporarySuffix = 25
)

// convertToCapped answers {convertToCapped: collection, size: bytes}: it
// replaces the collection with a capped one that has as many of the newest
// documents as fit. Its indexes, except the one on _id, are dropped. (Manual:
// database command convertToCapped.)
func (n *Node) convertToCapped() *command.Command {
	return &command.Command{
		Name: "convertToCapped", Flags: command.ChecksDatabase | ddlFlags,
		Help: "{ convertToCapped:<fromCollectionName>, size:<sizeInBytes> }",
		Run:  n.runConvertToCapped,
	}
}

// cloneCollectionAsCapped answers {cloneCollectionAsCapped: collection,
// toCollection: name, size: bytes}. (Manual: database command
// cloneCollectionAsCapped.)
func (n *Node) cloneCollectionAsCapped() *command.Command {
	return &command.Command{
		Name: "cloneCollectionAsCapped", Flags: command.ChecksDatabase | ddlFlags,
		Help: "{ cloneCollectionAsCapped:<fromName>, toCollection:<toName>, size:<sizeInBytes> }",
		Run:  n.runCloneCollectionAsCapped,
	}
}

func (n *Node) runConvertToCapped(ctx context.Context, op *command.Op) error {
	from, err := looseNamespace(op)
	if err == nil {
		err = from.CheckArchive()
	}
	if err != nil {
		return err
	}
	size, err := cappedSize(op.Body)
	if err != nil {
		return err
	}
	if len(from.String())+temporarySuffix > schema.MaxNamespace {
		return mongoerr.New(mongoerr.InvalidNamespace, "Namespace %s is too long to be converted", from)
	}
	if from.Coll == schema.ViewsCollection {
		return mongoerr.New(mongoerr.BadValue, "cannot convert a system collection: %s", from)
	}
	c, err := n.cappedSource(from)
	if err != nil {
		return err
	}
	to := schema.Namespace{DB: from.DB, Coll: "tmp" + bson.NewUUID().String()[:8] + ".convertToCapped." + from.Coll}
	to.Coll = to.Coll[:min(len(to.Coll), schema.MaxNamespace-len(to.DB)-1)]
	if err := n.copyCapped(ctx, op, c, to, size, true); err != nil {
		return err
	}
	if _, err = n.Catalog.Rename(ctx, to, from, true); err != nil {
		n.Catalog.Drop(context.WithoutCancel(ctx), to)
		return err
	}
	op.AuditedRename(to.String(), from.String())
	return nil
}

func (n *Node) runCloneCollectionAsCapped(ctx context.Context, op *command.Op) error {
	_, v := op.Body.First()
	target := op.Body.Lookup("toCollection")
	for _, name := range []bson.Value{v, target} {
		if name.Type != bson.TypeString {
			return mongoerr.New(mongoerr.TypeMismatch, "'cloneCollectionAsCapped' and 'toCollection' must be of type String, found: %s", name.Type)
		}
	}
	from := schema.Namespace{DB: op.DB, Coll: v.Str()}
	to := schema.Namespace{DB: op.DB, Coll: target.Str()}
	op.SetCollection(from.Coll)
	for _, ns := range []schema.Namespace{from, to} {
		if err := ns.Validate(); err != nil {
			return err
		}
	}
	size, err := cappedSize(op.Body)
	if err != nil {
		return err
	}
	c, err := n.cappedSource(from)
	if err != nil {
		return err
	}
	if existing := n.Catalog.Lookup(to); existing != nil {
		if existing.IsView() {
			return mongoerr.New(mongoerr.CommandNotSupportedOnView, "cloneCollectionAsCapped not supported on a view: %s", to)
		}
		return mongoerr.New(mongoerr.NamespaceExists, "cloneCollectionAsCapped failed - destination collection %s already exists", to)
	}
	if to.IsBuckets() {
		return mongoerr.New(mongoerr.IllegalOperation, "cannot clone to a buckets collection: %s", to)
	}
	if err := to.ValidateCreate(); err != nil {
		return err
	}
	return n.copyCapped(ctx, op, c, to, size, false)
}

// cappedSize reads the size for a capped collection. Errors: 72, 2.
func cappedSize(body bson.Doc) (int64, error) {
	v := body.Lookup("size")
	size := bson.ClampToInt64(v)
	if !v.IsNumber() || size < 1 {
		return 0, mongoerr.New(mongoerr.InvalidOptions, "Capped collection size must be greater than zero")
	}
	if size > schema.MaxCappedSize {
		return 0, mongoerr.New(mongoerr.BadValue, "Capped collection size must be less than or equal to %d", schema.MaxCappedSize)
	}
	return size, nil
}

// cappedSource finds the collection to copy. Errors: 26, 166, 20 for the
// buckets of a time-series collection.
func (n *Node) cappedSource(from schema.Namespace) (*catalog.Collection, error) {
	c := n.Catalog.Lookup(from)
	switch {
	case c != nil && c.Virtual() != nil:
		return nil, mongoerr.New(mongoerr.IllegalOperation, "cannot convert %s: it is a view of the replica set's log", from)
	case from.IsBuckets() && (c != nil || n.bucketsOf(from) != nil):
		return nil, mongoerr.New(mongoerr.IllegalOperation, "cannot convert the buckets of a time-series collection: %s", from)
	case c == nil && len(n.Catalog.Collections(from.DB)) == 0:
		return nil, mongoerr.New(mongoerr.NamespaceNotFound, "database %s not found", from.DB)
	case c == nil:
		return nil, mongoerr.New(mongoerr.NamespaceNotFound, "source collection %s does not exist", from)
	case c.SeenAsView():
		return nil, mongoerr.New(mongoerr.CommandNotSupportedOnView, "cloneCollectionAsCapped not supported for views: %s", from)
	}
	return c, nil
}

// bucketsOf finds the time-series collection whose buckets a namespace names.
func (n *Node) bucketsOf(ns schema.Namespace) *catalog.Collection {
	if !ns.IsBuckets() {
		return nil
	}
	c := n.Catalog.Lookup(schema.Namespace{DB: ns.DB, Coll: ns.Coll[len(schema.BucketsPrefix):]})
	if c == nil || !c.IsTimeseries() {
		return nil
	}
	return c
}

// copyCapped makes a capped collection and copies the documents of another one
// into it, oldest first, so that the newest remain.
func (n *Node) copyCapped(ctx context.Context, op *command.Op, from *catalog.Collection, to schema.Namespace, size int64, temp bool) error {
	if err := op.Auditable(); err != nil {
		return err
	}
	o := schema.Options{Capped: true, Size: size, Temp: temp, Collation: from.Settings.Collation, ExpireAfterSeconds: schema.NoExpiry}
	c, err := n.Catalog.Create(ctx, to, o.Doc())
	if err != nil {
		return err
	}
	if err := n.copyDocuments(ctx, from, c); err != nil {
		n.Catalog.Drop(context.WithoutCancel(ctx), to)
		return err
	}
	op.Audited("createCollection", new(bson.Builder).String("ns", to.String()).Finish())
	return nil
}

func (n *Node) copyDocuments(ctx context.Context, from, to *catalog.Collection) error {
	s := n.Catalog.Engine().NewSnapshot()
	defer s.Close()
	it, err := s.NewIter(from.Ident, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	u := n.Catalog.Begin()
	defer func() { u.Abort() }()
	for ok := it.First(); ok; ok = it.Next() {
		doc, err := it.Value()
		if err != nil {
			return err
		}
		if err := u.Insert(ctx, to, bson.Doc(doc)); err != nil {
			return err
		}
		if u.Size() > copyUnitBytes || u.Count() >= copyUnitDocs {
			if err := u.Commit(ctx, storage.Buffered); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			u = n.Catalog.Begin()
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return u.Commit(ctx, storage.Buffered)
}
