package shardsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// dropDatabase answers {_shardsvrDropDatabase: db}.
func (r *request) dropDatabase(ctx context.Context) error {
	for _, c := range r.s.cat.Collections(r.name) {
		r.s.stop(c.Namespace)
	}
	if err := r.blockDatabase(ctx); err != nil {
		return err
	}
	if _, err := r.s.run(ctx, r.name, new(bson.Builder).Int32("dropDatabase", 1).Finish()); err != nil {
		return err
	}
	return r.s.remove(ctx, databases, bson.String(r.name))
}

// blockDatabase refuses writes by the version that the shard has of a database: what is written
// between the drop and the end of that version would stay, and nobody would see it before the
// next database of that name.
func (r *request) blockDatabase(ctx context.Context) error {
	have, err := r.s.node.Stored(databases, r.name)
	if err != nil || have == nil || have.Lookup("blocked").Truthy() {
		return err
	}
	b := new(bson.Builder)
	for name, v := range have.All() {
		if name != "blocked" {
			b.Value(name, v)
		}
	}
	if err := r.s.put(ctx, nil, databases, b.Bool("blocked", true).Finish()); err != nil {
		return err
	}
	return r.s.cat.Drain(ctx, r.name)
}

// dropCollection stops the background work for a collection and drops it.
func (s *Shard) dropCollection(ctx context.Context, ns schema.Namespace) error {
	s.stop(ns)
	_, err := s.run(ctx, ns.DB, new(bson.Builder).String("drop", ns.Coll).Finish())
	if err != nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return err
	}
	return s.remove(ctx, receiving, bson.String(ns.String()))
}

// drop answers {_shardsvrDrop: ns, uuid} or {_shardsvrDrop: ns, view: true}. It is no error if
// there is no such collection, or view.
func (r *request) drop(ctx context.Context) error {
	c := r.s.cat.Lookup(r.ns)
	if c == nil || r.body.Has("uuid") && !r.isUUID(c) || r.body.Lookup("view").Truthy() && !c.IsView() {
		return nil
	}
	return r.s.dropCollection(ctx, r.ns)
}
