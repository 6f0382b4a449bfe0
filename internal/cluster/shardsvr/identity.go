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
	have, other, err := r.identity()
	if err != nil {
		return err
	}
	if other {
		return mongoerr.New(mongoerr.AlreadyInitialized, "this is shard %s of cluster %s", have.Lookup("shardName"), have.Lookup("clusterId"))
	}
	doc := new(bson.Builder).String("_id", node.ShardIdentity).Value("shardName", name).Value("clusterId", id).Value("configsvrConnectionString", config).Finish()
	return r.s.put(ctx, nil, identities, doc)
}

// settings answers {_shardsvrSettings: "config", settings: [{of, id, is}]}: when it returns, what
// the cluster has set is in effect here (step.KindSettings).
func (r *request) settings(ctx context.Context) error {
	return r.s.node.KeepSettings(ctx, r.body.Lookup("settings"))
}

// identity returns the shard that this replica set is, nil for none, and whether that is
// another one than the request's.
func (r *request) identity() (have bson.Doc, other bool, err error) {
	have, err = r.s.node.Stored(identities, node.ShardIdentity)
	return have, have != nil && (!bson.Equal(have.Lookup("clusterId"), r.body.Lookup("clusterId")) || !bson.Equal(have.Lookup("shardName"), r.body.Lookup("name"))), err
}

// leave answers {_shardsvrLeave, clusterId, name}: this replica set stops being that shard.
// If it is another one, there is nothing to do. Errors: 20 if it still owns chunks.
func (r *request) leave(ctx context.Context) error {
	if have, other, err := r.identity(); err != nil || have == nil || other {
		return err
	}
	if docs, err := r.s.decisions(); err != nil || len(docs) > 0 || len(r.s.cat.Undecided()) > 0 || r.s.coordinates() {
		if err == nil {
			err = mongoerr.New(mongoerr.IllegalOperation, "the shard has transactions over shards that are being committed")
		}
		return err
	}
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
