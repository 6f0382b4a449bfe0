package shardsvr

import (
	"context"
	"errors"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// isUUID reports whether a collection has the UUID of the request.
func (r *request) isUUID(c *catalog.Collection) bool { return hasUUID(c, r.body.Lookup("uuid")) }

// hasUUID reports whether a collection has a UUID, which is a field of a request.
func hasUUID(c *catalog.Collection, v bson.Value) bool {
	if v.Type != bson.TypeBinary {
		return false
	}
	_, id := v.Binary()
	return string(id) == string(c.UUID[:])
}

// entry returns the sharding of a collection as the request describes it. Errors: 2, 14.
func (r *request) entry() (*schema.Sharding, error) {
	key, version := r.body.Lookup("key"), r.body.Lookup("version")
	if key.Type != bson.TypeDocument || version.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.BadValue, "the request needs key and version: %s", r.body)
	}
	k, err := schema.ParseShardKey(key.Doc())
	if err != nil {
		return nil, err
	}
	v, err := schema.ParseShardVersion(version.Doc())
	if err != nil {
		return nil, err
	}
	return &schema.Sharding{Key: k, Unique: r.body.Lookup("unique").Truthy(), Version: v, Shard: r.s.node.ShardName()}, nil
}

// createSharded answers {_shardsvrCreateSharded: ns, uuid, key, unique, version, options,
// indexes}: it creates the sharded collection unless it exists. It drops a sharded one with
// another uuid, which is obsolete. Errors: 48 if an unsharded one exists.
func (r *request) createSharded(ctx context.Context) error {
	s, err := r.entry()
	if err != nil {
		return err
	}
	return r.s.create(ctx, r, s)
}

func (s *Shard) create(ctx context.Context, r *request, entry *schema.Sharding) error {
	c := s.cat.Lookup(r.ns)
	if c != nil && !r.isUUID(c) {
		if c.Sharding() == nil {
			return mongoerr.New(mongoerr.NamespaceExists, "Collection %s already exists, and is not sharded.", r.ns)
		}
		if err := s.dropCollection(ctx, r.ns); err != nil {
			return err
		}
		c = nil
	}
	if c == nil {
		n := catalog.NewCollection{Sharding: entry}
		if o := r.body.Lookup("options"); o.Type == bson.TypeDocument && !o.Doc().IsEmpty() {
			n.Options = o.Doc().Clone()
		}
		v := r.body.Lookup("uuid")
		if v.Type != bson.TypeBinary {
			return mongoerr.New(mongoerr.BadValue, "the request needs a uuid: %s", r.body)
		}
		_, id := v.Binary()
		copy(n.UUID[:], id)
		if _, err := s.cat.CreateWith(ctx, r.ns, n); err != nil {
			return err
		}
	}
	if err := s.makeIndexes(ctx, r.ns, r.body.Lookup("indexes")); err != nil {
		return err
	}
	return s.cat.LieByShardKey(ctx, r.ns)
}

// shardCollection answers {_shardsvrShard: ns, key, unique, version, timeseries, …}: it shards
// the collection, or creates it, at a version that no router has yet. The key of a time series
// is that of its buckets. Errors: 20, 23, 72, 166.
func (r *request) shardCollection(ctx context.Context) error {
	entry, err := r.entry()
	if err != nil {
		return err
	}
	c := r.s.cat.Lookup(r.ns)
	unsplittable := r.body.Lookup("unsplittable").Truthy()
	if c == nil && unsplittable {
		return mongoerr.New(mongoerr.NamespaceNotFound, "ns not found %s", r.ns)
	}
	series := r.body.Lookup("timeseries")
	if c == nil {
		if v := r.body.Lookup("implicitlyCreateIndex"); v.Type == bson.TypeBool && !v.Bool() {
			return errNoKeyIndex
		}
		// With the entry from the beginning: what fails later is undone with the collection.
		n := catalog.NewCollection{Sharding: entry}
		if series.Type == bson.TypeDocument {
			n.Options = new(bson.Builder).Value("timeseries", series).Finish()
		}
		if c, err = r.s.cat.CreateWith(ctx, r.ns, n); err != nil {
			return err
		}
	}
	switch had := c.Sharding(); {
	case c.IsView():
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", r.ns)
	case c.Capped:
		return mongoerr.New(mongoerr.InvalidOptions, "can't shard a capped collection")
	case c.IsTimeseries() && unsplittable:
		return mongoerr.New(mongoerr.IllegalOperation, "a time-series collection is not moved by itself: %s", r.ns)
	case !sameSeries(c, series):
		return mongoerr.New(mongoerr.InvalidOptions, "the 'timeseries' specification provided must match that of the collection %s", r.ns)
	case had != nil && had.Version.ShardGeneration != entry.Version.ShardGeneration:
		return mongoerr.New(mongoerr.AlreadyInitialized, "sharding already enabled for collection %s", r.ns)
	case had == nil && unsplittable: // all of it stays together, so any index serves
		if c, err = r.s.cat.SetSharding(ctx, r.ns, func(*catalog.Collection) (*schema.Sharding, error) { return entry, nil }); err != nil {
			return err
		}
	case !unsplittable:
		if c, err = r.s.shard(ctx, c, entry, r.body); err != nil {
			return err
		}
	}
	r.reply.Binary("uuid", 4, c.UUID[:]).Bool("empty", c.Count() == 0).Doc("options", c.Options).OpenArray("indexes")
	for i, ix := range c.Indexes() {
		r.reply.Doc(bson.Index(i), ix.Spec)
	}
	r.reply.Close()
	return nil
}

// sameSeries reports whether a collection is the time series, or none, that the config servers
// took it for when they made its shard key.
func sameSeries(c *catalog.Collection, options bson.Value) bool {
	if !c.IsTimeseries() || options.Type != bson.TypeDocument {
		return c.IsTimeseries() == (options.Type == bson.TypeDocument)
	}
	return c.Settings.Timeseries.Same(schema.LoadTimeseries(options.Doc()))
}

var errNoKeyIndex = mongoerr.New(mongoerr.Code(6373200), "Must have an index compatible with the proposed shard key")

// shard shards c, and builds the index that its shard key needs.
func (s *Shard) shard(ctx context.Context, c *catalog.Collection, entry *schema.Sharding, body bson.Doc) (*catalog.Collection, error) {
	if c.Settings.Collation != nil && !body.Has("collation") && !body.Lookup("unsplittable").Truthy() {
		return nil, mongoerr.New(mongoerr.BadValue, "Collection has default collation: %s. Must specify collation {locale: 'simple'}", c.Options.Lookup("collation"))
	}
	key := shard.NewKey(entry.Key)
	exact, reasons := catalog.IndexForShardKey(c.Indexes(), key.ShardKey)
	if exact == nil {
		if c.Count() > 0 {
			return nil, mongoerr.New(mongoerr.InvalidOptions, "Please create an index that starts with the proposed shard key before sharding the collection. %s", strings.Join(reasons, " "))
		}
		if v := body.Lookup("implicitlyCreateIndex"); v.Type == bson.TypeBool && !v.Bool() {
			return nil, errNoKeyIndex
		}
		if _, _, err := s.cat.CreateIndexes(ctx, c.Namespace, []bson.Doc{keyIndex(c, entry)}); err != nil {
			return nil, err
		}
	} else if entry.Unique && !exact.Unique && !exact.IsID() {
		return nil, mongoerr.New(mongoerr.InvalidOptions, "can't shard collection '%s' with unique shard key, as its index %s is not unique", c.Namespace, exact.Key)
	}
	for _, ix := range c.Indexes() {
		if ix.Unique && !ix.IsID() && !key.AllowsUnique(ix.Key) {
			return nil, mongoerr.New(mongoerr.InvalidOptions, "can't shard collection '%s' with unique index on %s and proposed shard key %s. Uniqueness can't be maintained unless shard key is a prefix", c.Namespace, ix.Key, key)
		}
	}
	if _, err := s.cat.SetSharding(ctx, c.Namespace, func(*catalog.Collection) (*schema.Sharding, error) { return entry, nil }); err != nil {
		return nil, err
	}
	if err := s.cat.LieByShardKey(ctx, c.Namespace); err != nil {
		return nil, err
	}
	if c = s.cat.Lookup(c.Namespace); c == nil {
		return nil, mongoerr.New(mongoerr.NamespaceNotFound, "the collection was dropped")
	}
	return c, nil
}

// keyIndex returns the specification of the index that a shard key needs.
func keyIndex(c *catalog.Collection, entry *schema.Sharding) bson.Doc {
	pattern := entry.Key.Pattern()
	if c.IsTimeseries() {
		pattern = c.Settings.Timeseries.ShardKeyIndex(pattern)
	}
	var name strings.Builder
	for field, v := range pattern.All() {
		if name.Len() > 0 {
			name.WriteByte('_')
		}
		name.WriteString(field + "_" + strings.Trim(v.String(), `"`))
	}
	b := new(bson.Builder).Int32("v", 2).Doc("key", pattern).String("name", name.String())
	if entry.Unique && !entry.Key.IsHashed() {
		b.Bool("unique", true)
	}
	if c.Settings.Collation != nil {
		b.OpenDoc("collation").String("locale", "simple").Close()
	}
	return b.Finish()
}

// unshard answers {_shardsvrUnshard: ns, uuid, keep}: it undoes _shardsvrShard, and
// _shardsvrCreateSharded if the collection is empty. With keep it was there before.
func (r *request) unshard(ctx context.Context) error {
	c := r.s.cat.Lookup(r.ns)
	if c == nil || c.Sharding() == nil || r.body.Has("uuid") && !r.isUUID(c) {
		return nil
	}
	if c.Count() == 0 && !r.body.Lookup("unsplittable").Truthy() && !r.body.Lookup("keep").Truthy() {
		return r.s.dropCollection(ctx, r.ns)
	}
	_, err := r.s.cat.SetSharding(ctx, r.ns, func(*catalog.Collection) (*schema.Sharding, error) { return nil, nil })
	return err
}

// change updates the sharding of the request's collection. Errors: 26, 117, 118, 361, and those
// of f.
func (r *request) change(ctx context.Context, f func(s *schema.Sharding) error) (*catalog.Collection, error) {
	return r.s.cat.ChangeSharding(ctx, r.ns, func(c *catalog.Collection) (*schema.Sharding, bson.Doc, error) {
		if err := r.current(); err != nil {
			return nil, nil, err
		}
		if c.Sharding() == nil {
			return nil, nil, mongoerr.New(mongoerr.NamespaceNotSharded, "%s is not sharded here", r.ns)
		}
		if r.body.Has("uuid") && !r.isUUID(c) {
			return nil, nil, mongoerr.New(mongoerr.CollectionUUIDMismatch, "%s is %s", r.ns, c.UUID)
		}
		s := *c.Sharding()
		s.Hidden = append([]schema.HiddenRange(nil), s.Hidden...)
		if err := f(&s); err != nil {
			return nil, nil, err
		}
		return &s, r.tellsOf(c, &s), nil
	})
}

// toVersion sets the version of the request in s. Errors: 2, 14.
func (r *request) toVersion(s *schema.Sharding) error {
	v := r.body.Lookup("version")
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.BadValue, "the request needs a version: %s", r.body)
	}
	version, err := schema.ParseShardVersion(v.Doc())
	if err == nil {
		s.Version = version
	}
	return err
}

// tell is change for what the shard is told after a commit. Whoever talked to the shard
// itself may have dropped the collection: then nobody is left to be told, and it is no error,
// else the operation would ask for ever.
func (r *request) tell(ctx context.Context, f func(s *schema.Sharding) error) error {
	_, err := r.change(ctx, f)
	var e *mongoerr.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case mongoerr.NamespaceNotFound, mongoerr.NamespaceNotSharded, mongoerr.CollectionUUIDMismatch:
		r.s.log.ErrorContext(ctx, "A collection of the cluster is missing on this shard", "id", logMissing, "namespace", r.ns.String(), "error", e.Message)
		return nil
	}
	return err
}

// logMissing is the id of the log line about a collection that should be here.
const logMissing = 9000041

// tellsOf is the command that change streams tell of what the request changes: {name, …
// operationDescription}. The request has that in tell, where this shard is the one that tells;
// nil for none. One that is executed again, and changes nothing, tells nothing.
func (r *request) tellsOf(c *catalog.Collection, s *schema.Sharding) bson.Doc {
	v, was := r.body.Lookup("tell"), c.Sharding()
	if v.Type != bson.TypeDocument || c.Namespace.IsResharding() || s.Version == was.Version && s.Version.Major > 0 {
		return nil
	}
	return commandOf(c, v.Doc())
}

// commandOf is a command of the log on a collection of what a request tells: {name:
// description}.
func commandOf(c *catalog.Collection, tell bson.Doc) bson.Doc {
	name, description := tell.First()
	b := new(bson.Builder).String(name, c.Namespace.Coll)
	if description.Type == bson.TypeDocument {
		b.Fields(description.Doc())
	}
	return b.Finish()
}

// version answers {_shardsvrVersion: ns, uuid, version, tell}.
func (r *request) version(ctx context.Context) error { return r.tell(ctx, r.toVersion) }
