package shardsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/schema"
)

var identities = schema.Namespace{DB: "admin", Coll: "system.version"}

// identify answers {_shardsvrIdentify, clusterId, name, configdb}: it makes this replica set
// that shard. Errors: 23 if it is another one already.
func (r *request) identify(ctx context.Context) error {
	id, name, config := r.body.Lookup("clusterId"), r.body.Lookup("name"), r.body.Lookup("configdb")
	if name.Type != bson.TypeString || config.Type != bson.TypeString {
		return mongoerr.New(mongoerr.BadValue, "_shardsvrIdentify needs clusterId, name and configdb")
	}
	have, err := r.s.node.Stored(identities, node.ShardIdentity)
	if err != nil {
		return err
	}
	if have != nil && (!bson.Equal(have.Lookup("clusterId"), id) || !bson.Equal(have.Lookup("shardName"), name)) {
		return mongoerr.New(mongoerr.AlreadyInitialized, "this is shard %s of cluster %s", have.Lookup("shardName"), have.Lookup("clusterId"))
	}
	doc := new(bson.Builder).String("_id", node.ShardIdentity).Value("shardName", name).Value("clusterId", id).Value("configsvrConnectionString", config).Finish()
	return r.s.put(ctx, nil, identities, doc)
}

// leave answers {_shardsvrLeave}: this replica set stops being a shard. Errors: 20 if it
// still owns chunks.
func (r *request) leave(ctx context.Context) error {
	var empty []schema.Namespace
	for _, db := range r.s.cat.Databases() {
		for _, c := range r.s.cat.Collections(db) {
			switch sharding := c.Sharding(); {
			case sharding == nil:
			case sharding.Version.Major > 0 || sharding.Moves():
				return mongoerr.New(mongoerr.IllegalOperation, "the shard owns chunks of %s, or moves them", c.Namespace)
			default:
				empty = append(empty, c.Namespace)
			}
		}
	}
	for _, ns := range empty {
		if err := r.s.dropCollection(ctx, ns); err != nil {
			return err
		}
	}
	return r.s.remove(ctx, identities, bson.String(node.ShardIdentity))
}

// setDatabase answers {_shardsvrSetDatabase: db, version, primary, blocked}. When it returns,
// all units that were admitted under the old state have ended.
func (r *request) setDatabase(ctx context.Context) error {
	version := r.body.Lookup("version")
	if version.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.BadValue, "_shardsvrSetDatabase needs a version")
	}
	doc := new(bson.Builder).String("_id", r.name).Value("version", version).
		Bool("primary", r.body.Lookup("primary").Truthy()).Bool("blocked", r.body.Lookup("blocked").Truthy()).Finish()
	if err := r.s.put(ctx, nil, databases, doc); err != nil {
		return err
	}
	if r.fence.Phase == step.Committed { // what was copied is the shard's own now
		if err := r.s.remove(ctx, cloningsOf, bson.String(r.name)); err != nil {
			return err
		}
	}
	return r.s.cat.Drain(ctx, r.name)
}

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
