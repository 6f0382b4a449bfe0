package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// insertDocuments and insertBytes bound what is inserted at once.
	insertDocuments = 1000
	insertBytes     = 8 << 20
)

// IntoOptions say where collections of a backup are inserted.
type IntoOptions struct {
	RestoreOptions             // To is a directory for what is restored first
	URI            *client.URI // a server, a set or routers
	// Drop drops a collection there before it is restored.
	Drop bool
}

// Into is what RestoreInto has done.
type Into struct {
	*Restored
	Collections int
	// Documents were inserted; Kept were there already, by their _id or another unique key, and
	// stay as they are.
	Documents, Kept int64
}

// RestoreInto restores collections to a directory, and inserts their documents into a running
// server, with options and indexes, as mongorestore does. What is there stays.
func (r *Repository) RestoreInto(ctx context.Context, o IntoOptions) (into *Into, err error) {
	c, err := connect(ctx, o.URI)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	o.KeepExpired = true // the server removes what is due
	done, err := r.Restore(ctx, o.RestoreOptions)
	if err != nil {
		return nil, err
	}
	store, err := storage.Unlock(storage.OSFS(), o.To, o.Master)
	if err != nil {
		return nil, err
	}
	e, err := openStore(store, o.To)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	from, err := catalog.Open(e, catalog.Options{Committer: repl.Local{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	i := &inserting{c: c, exec: &exec.Executor{Catalog: from, SpillDir: o.To}, o: o, into: &Into{Restored: done}}
	for _, views := range []bool{false, true} { // what a view reads comes before it
		for _, db := range from.Databases() {
			for _, coll := range from.Collections(db) {
				if coll.Namespace.IsSystem() || coll.IsView() != views || !o.Only.match(coll.Namespace.String()) {
					continue
				}
				if err := i.collection(ctx, coll); err != nil {
					return nil, fmt.Errorf("%s: %w", coll.Namespace, err)
				}
			}
		}
	}
	return i.into, nil
}

// inserting is a RestoreInto under way.
type inserting struct {
	c    *connection
	exec *exec.Executor
	o    IntoOptions
	into *Into
	// total is how many documents the collections have that were begun.
	total int64
}

// collection makes a collection on the server.
func (i *inserting) collection(ctx context.Context, coll *catalog.Collection) error {
	db, name := coll.Namespace.DB, coll.Namespace.Coll
	if i.o.Drop {
		if _, err := i.c.Run(ctx, db, new(bson.Builder).String("drop", name).Finish()); err != nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
			return err
		}
	}
	create := new(bson.Builder).String("create", name)
	if coll.Options != nil {
		create.Fields(coll.Options)
	}
	if _, err := i.c.Run(ctx, db, create.Finish()); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
		return err
	}
	i.into.Collections++
	if coll.IsView() {
		return nil
	}
	i.total += coll.Count()
	if err := i.documents(ctx, coll); err != nil {
		return err
	}
	b := new(bson.Builder).String("createIndexes", name).OpenArray("indexes")
	n := 0
	for _, ix := range coll.Indexes() {
		if ix.Name != "_id_" {
			b.Doc(bson.Index(n), ix.Spec)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	_, err := i.c.Run(ctx, db, b.Close().Finish())
	return err
}

// documents inserts the documents of a collection.
func (i *inserting) documents(ctx context.Context, coll *catalog.Collection) (err error) {
	filter, err := match.Parse(bson.Empty, nil)
	if err != nil {
		return err
	}
	cur, err := i.exec.Find(ctx, coll, &exec.Query{Query: plan.Query{Filter: filter}})
	if err != nil {
		return err
	}
	defer cur.Close()
	var docs []bson.Doc
	size := 0
	for {
		doc, err := cur.Next(ctx)
		if err != nil {
			return err
		}
		if len(docs) > 0 && (doc == nil || len(docs) == insertDocuments || size+len(doc) > insertBytes) {
			if err := i.insert(ctx, coll, docs); err != nil {
				return err
			}
			docs, size = docs[:0], 0
		}
		if doc == nil {
			return nil
		}
		docs, size = append(docs, doc.Clone()), size+len(doc)
	}
}

// insert inserts documents.
func (i *inserting) insert(ctx context.Context, coll *catalog.Collection, docs []bson.Doc) error {
	inserted, kept, err := i.c.Insert(ctx, coll.Namespace.DB, coll.Namespace.Coll, docs, true)
	i.into.Documents += inserted
	i.into.Kept += kept
	i.o.Progress("documents", i.into.Documents+i.into.Kept, i.total)
	return err
}
