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
	if _, err := r.s.run(ctx, r.name, new(bson.Builder).Int32("dropDatabase", 1).Finish()); err != nil {
		return err
	}
	return r.s.remove(ctx, databases, bson.String(r.name))
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

// drop answers {_shardsvrDrop: ns, uuid}. It is no error if there is no such collection.
func (r *request) drop(ctx context.Context) error {
	c := r.s.cat.Lookup(r.ns)
	if c == nil || r.body.Has("uuid") && !r.isUUID(c) {
		return nil
	}
	return r.s.dropCollection(ctx, r.ns)
}
