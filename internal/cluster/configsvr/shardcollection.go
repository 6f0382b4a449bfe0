package configsvr

import (
	"context"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// shardCollection shards a collection, empty or filled. (Manual: shardCollection.)
func (s *Server) shardCollection() *command.Command {
	return newCommand("ShardCollection", command.String(""), s.runShardCollection,
		command.Object("key").Required(), command.Bool("unique"), command.SafeInt64("numInitialChunks"), command.Bool("presplitHashedZones"),
		command.Object("collation"), command.Struct("timeseries", node.TimeseriesFields),
		command.OptionalBool("implicitlyCreateIndex"), command.OptionalBool("enforceUniquenessCheck"))
}

// maxNamespace is the length of the name of a sharded collection, in bytes.
const maxNamespace = 235

func (s *Server) runShardCollection(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	if ns != value(op) {
		return mongoerr.New(mongoerr.Code(5731501), "Namespace cannot be the buckets of a time-series collection: %s", value(op))
	}
	if len(ns) > maxNamespace {
		return mongoerr.New(mongoerr.InvalidNamespace, "The namespace %s is too long to be sharded (maximum %d bytes)", ns, maxNamespace)
	}
	if err := mayBeSharded(ns); err != nil {
		return err
	}
	a := &op.Args
	if a.Doc("key").IsEmpty() {
		return badValue("Shard key is empty")
	}
	key, err := shard.ParseKey(a.Doc("key"))
	if err != nil {
		return err
	}
	if key.IsHashed() && a.Bool("unique") {
		return mongoerr.New(mongoerr.InvalidOptions, "hashed shard keys cannot be declared unique. It's possible to ensure uniqueness on the hashed field by declaring an additional (non-hashed) unique index on the field.")
	}
	if c := a.Doc("collation"); c != nil && text(c, "locale") != "simple" {
		return badValue("The collation for shardCollection must be {locale: 'simple'}, but found: %s", c)
	}
	db, err := s.makeDatabase(ctx, op, databaseOf(ns), "")
	if err != nil {
		return err
	}
	series, err := s.seriesToShard(ctx, db, ns, a)
	if err == nil && series != nil {
		key, err = bucketKey(series, a)
	}
	if err != nil {
		return err
	}
	was, err := s.unsharded(ctx, db, ns)
	if err != nil {
		return err
	}
	_, err = s.operate(ctx, plan{op: op, kind: step.KindShardCollection, ns: ns, claim: claim{alone: []string{ns}}, decide: func() (decision, error) {
		return s.decideShardCollection(ns, key, series, op, db.Name, was.Namespace != "")
	}})
	if err == nil {
		op.Reply.String("collectionsharded", ns)
	}
	return err
}

// seriesToShard returns the options of the time series that a command shards: those of the one
// that lies on the primary shard, or of the one that it creates; nil for none. Errors: 72 where
// the two are not the same, and those of create.
func (s *Server) seriesToShard(ctx context.Context, db databaseDoc, ns string, a *command.Args) (*schema.Timeseries, error) {
	var asked *schema.Timeseries
	if a.Has("timeseries") {
		var err error
		if asked, err = schema.ParseTimeseries(schema.ParseNamespace(ns), a.Value("timeseries").Doc()); err != nil {
			return nil, err
		}
	}
	c, err := s.collection(ns)
	if err == nil && c.Namespace == "" {
		c, err = s.unsharded(ctx, db, ns)
	}
	switch {
	case err != nil:
		return nil, err
	case c.Namespace == "":
		return asked, nil
	case asked != nil && (c.Timeseries == nil || !c.Timeseries.Same(asked)):
		return nil, mongoerr.New(mongoerr.InvalidOptions, "the 'timeseries' specification provided must match that of the collection %s", ns)
	}
	return c.Timeseries, nil
}

// bucketKey returns the shard key of the buckets for that of a command. Errors: those of
// Timeseries.BucketShardKey, 72.
func bucketKey(series *schema.Timeseries, a *command.Args) (*shard.Key, error) {
	if a.Bool("unique") {
		return nil, mongoerr.New(mongoerr.InvalidOptions, "the shard key of a time-series collection cannot be unique")
	}
	pattern, err := series.BucketShardKey(a.Doc("key"))
	if err != nil {
		return nil, err
	}
	return shard.ParseKey(pattern)
}

// mayBeSharded rejects the server's own collections. Errors: 20, 72.
func mayBeSharded(ns string) error {
	db, coll, _ := strings.Cut(ns, ".")
	switch {
	case db == "local":
		return mongoerr.New(mongoerr.InvalidOptions, "can't shard collections of the local database")
	case ns == "config.system.sessions":
		return nil
	case db == "admin" || db == "config" || strings.HasPrefix(coll, "system."):
		return mongoerr.New(mongoerr.IllegalOperation, "can't shard %s", ns)
	}
	return nil
}

func (s *Server) decideShardCollection(ns string, key *shard.Key, series *schema.Timeseries, op *command.Op, name string, existed bool) (decision, error) {
	c, err := s.collection(ns)
	if err != nil {
		return decision{}, err
	}
	a := &op.Args
	if c.Unsplittable {
		return decision{}, mongoerr.New(mongoerr.IllegalOperation, "%s lies on a shard of its own choice; move it to the primary shard of its database and run untrackUnshardedCollection before it is sharded", ns)
	}
	if c.Namespace != "" {
		if !c.Key.Same(key) || c.Unique != a.Bool("unique") {
			return decision{}, mongoerr.New(mongoerr.AlreadyInitialized, "sharding already enabled for collection %s with options %s", ns, c.doc)
		}
		return decision{nothing: true}, nil
	}
	db, err := s.existing(name)
	if err != nil {
		return decision{}, err
	}
	// Errors that do not depend on the shards are reported before asking them.
	if _, err := s.initialChunks(ns, key, db.Primary, true, a.Int64("numInitialChunks"), a.Bool("presplitHashedZones"), shard.Generation{Timestamp: 1}); err != nil {
		return decision{}, err
	}
	all, err := s.shards()
	if err != nil {
		return decision{}, err
	}
	b := new(bson.Builder).String("primary", db.Primary).Strings("shards", ids(all)...).Doc("key", key.Pattern()).Bool("unique", a.Bool("unique")).Bool("existed", existed)
	shard.Version{ShardGeneration: s.generation()}.Append(b, "version")
	for _, name := range []string{"collation", "numInitialChunks", "presplitHashedZones", "implicitlyCreateIndex", "enforceUniquenessCheck"} {
		b.Value(name, a.Value(name))
	}
	if series != nil {
		b.Doc("timeseries", series.Doc())
	}
	return decision{args: b.Finish(), commitment: commitment{writes: []write{s.logged("shardCollection.start", ns, new(bson.Builder).Doc("shardKey", key.Pattern()).String("primary", db.Primary).Finish())}}}, nil
}

// initialChunks returns the chunks with which a collection starts.
func (s *Server) initialChunks(ns string, key *shard.Key, primary string, empty bool, number int64, presplit bool, g shard.Generation) ([]shard.Chunk, error) {
	zones, err := s.zones(ns, key)
	if err != nil {
		return nil, err
	}
	all, err := s.shards()
	if err != nil {
		return nil, err
	}
	in := shard.Initial{
		Key: key, Empty: empty, Primary: primary, Zones: zones, InZone: map[string][]string{}, NumChunks: number, Presplit: presplit, Generation: g, NewID: s.newID,
	}
	for _, sh := range all {
		if !sh.Draining {
			in.Shards = append(in.Shards, sh.ID)
		}
		for _, z := range sh.Zones {
			in.InZone[z] = append(in.InZone[z], sh.ID)
		}
	}
	return in.Chunks()
}

// layChunks writes the chunks of a collection, once the primary shard has described it.
// It removes those of an earlier attempt. Nobody reads them before the commit.
func (s *Server) layChunks(ctx context.Context, o *step.Operation, got step.Answers) (bson.Doc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, empty, err := laid(o, got)
	if err != nil {
		return nil, err
	}
	number, _ := bson.ExactInt64(o.Args.Lookup("numInitialChunks"))
	var list []shard.Chunk
	if c.Unsplittable {
		now := s.ClusterTime()
		list = []shard.Chunk{{ID: s.newID(), Range: c.Key.Whole(), Shard: text(o.Args, "primary"), Version: shard.Version{ShardGeneration: c.Generation, Major: 1},
			History: []shard.Placement{{ValidAfter: now, Shard: text(o.Args, "primary")}}}}
	} else if list, err = s.initialChunks(o.Namespace, c.Key, text(o.Args, "primary"), empty, number, o.Args.Lookup("presplitHashedZones").Truthy(), c.Generation); err != nil {
		return nil, err
	}
	m, err := s.layLocked(ctx, &c, list)
	if err != nil {
		return nil, err
	}
	return new(bson.Builder).Strings("owners", m.Owners()...).Finish(), nil
}

// layLocked writes the chunks of a collection in the place of what an earlier attempt wrote.
// The caller holds s.mu.
func (s *Server) layLocked(ctx context.Context, c *collectionDoc, list []shard.Chunk) (*shard.Map, error) {
	m, err := shard.NewMap(c.Namespace, c.Key, c.Generation, list)
	if err != nil {
		return nil, err
	}
	var writes []write
	err = s.each(chunks, func(d bson.Doc) error {
		if _, id := d.Lookup("uuid").Binary(); string(id) == string(c.UUID[:]) {
			writes = append(writes, remove(chunks, d.Lookup("_id").Clone()))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	writes = append(writes, c.chunkWrites(shard.Change{Put: list})...)
	if err := s.commitInOrder(ctx, writes); err != nil {
		return nil, err
	}
	s.keep(c.UUID, m)
	return m, nil
}

// laid returns the collection that an operation shards, as the primary shard has
// described it.
func laid(o *step.Operation, got step.Answers) (c collectionDoc, empty bool, err error) {
	is := got.From(text(o.Args, "primary"), "_shardsvrShard")
	v, err := shard.ParseVersion(o.Args.Lookup("version").Doc())
	if err != nil {
		return c, false, err
	}
	c = collectionDoc{Namespace: o.Namespace, Unique: o.Args.Lookup("unique").Truthy(), Unsplittable: o.Args.Lookup("unsplittable").Truthy(), Generation: v.ShardGeneration}
	id := is.Lookup("uuid")
	if id.Type != bson.TypeBinary {
		return c, false, badValue("invalid description of the collection from its primary shard: %s", is)
	}
	_, content := id.Binary()
	copy(c.UUID[:], content)
	if c.Key, err = shard.ParseKey(o.Args.Lookup("key").Doc()); err != nil {
		return c, false, err
	}
	if series := o.Args.Lookup("timeseries"); series.Type == bson.TypeDocument {
		c.Timeseries = schema.LoadTimeseries(series.Doc())
	}
	b := new(bson.Builder).String("_id", c.id()).ObjectID("lastmodEpoch", v.Epoch).Date("lastmod", time.Now().UnixMilli()).Timestamp("timestamp", v.Timestamp).
		Binary("uuid", 4, c.UUID[:]).Doc("key", c.Key.Pattern()).Bool("unique", c.Unique)
	if c.Unsplittable {
		b.Bool("unsplittable", true)
	}
	if c.Timeseries != nil {
		b.Doc("timeseriesFields", c.Timeseries.Doc())
	}
	if collation := is.Lookup("options").Doc().Lookup("collation"); collation.Type == bson.TypeDocument {
		b.Value("defaultCollation", collation)
	}
	c.doc = b.Finish()
	return c, is.Lookup("empty").Truthy(), nil
}

func (s *Server) commitShardCollection(o *step.Operation, got step.Answers) (commitment, error) {
	c, _, err := laid(o, got)
	if err != nil {
		return commitment{}, err
	}
	m, err := s.chunkMap(&c)
	if err != nil {
		return commitment{}, err
	}
	of := m.Owners()
	b := new(bson.Builder).Binary("uuid", 4, c.UUID[:])
	if primary := text(o.Args, "primary"); m.ChunksOn(primary) == 0 {
		of = append(of[:len(of):len(of)], primary)
	}
	versionsOf(b, m, of)
	return commitment{told: b.Finish(), writes: []write{
		put(collections, c.doc), s.logged("shardCollection.end", o.Namespace, new(bson.Builder).Int32("numChunks", int32(m.Len())).Finish()),
	}}, nil
}
