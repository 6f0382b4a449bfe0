package router

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// maxRoutes bounds the cached routes. One more empties the cache.
const maxRoutes = 100_000

// route says which shards have the documents of a namespace. It is immutable.
type route struct {
	ns, db string
	// chunks is set for a sharded collection, and for one that was placed on a shard of
	// its own (unsplittable). It is nil for any other, which is on the primary shard.
	chunks       *shard.Map
	unsplittable bool
	collation    *schema.Collation  // the collection's default; nil for the simple one, and if it is not sharded
	timeseries   *schema.Timeseries // of a sharded time series, whose shard key is that of its buckets; else nil
	primary      string             // the primary shard; "" if the database does not exist
	version      bson.Doc           // of the database; nil for admin and config
}

// isSharded reports whether documents may be on several shards.
func (rt *route) isSharded() bool { return rt.chunks != nil && !rt.unsplittable }

// owners returns all shards that have documents of the namespace. If the database does not
// exist, the config servers answer for it: as a server that does not have it.
func (rt *route) owners() []string {
	switch {
	case rt.chunks != nil:
		return rt.chunks.Owners()
	case rt.primary == "":
		return []string{configShard}
	}
	return []string{rt.primary}
}

// appendVersions appends the versions of the route to a statement for a shard.
func (rt *route) appendVersions(b *bson.Builder, to string) {
	switch {
	case rt.chunks != nil:
		rt.chunks.ShardVersion(to).Append(b, "shardVersion")
	case rt.version != nil:
		shard.Unsharded.Append(b, "shardVersion")
		b.Doc("databaseVersion", rt.version)
	case rt.primary == "": // stale if the collection is there by now, and sharded
		shard.Unsharded.Append(b, "shardVersion")
	}
}

// routes is the cache of routes.
type routes struct {
	router *Router
	mu     sync.RWMutex
	all    map[string]*routed
}

// routed is the route of one namespace. The holder of turn refreshes it.
type routed struct {
	current atomic.Pointer[route]
	turn    chan struct{}
}

func (s *routes) of(ns string) *routed {
	s.mu.RLock()
	e := s.all[ns]
	s.mu.RUnlock()
	if e != nil {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e = s.all[ns]; e != nil {
		return e
	}
	if s.all == nil || len(s.all) >= maxRoutes {
		s.all = map[string]*routed{}
	}
	e = &routed{turn: make(chan struct{}, 1)}
	s.all[strings.Clone(ns)] = e
	return e
}

// forget removes the routes for which keep returns false.
func (s *routes) forget(gone func(ns string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ns := range s.all {
		if gone(ns) {
			delete(s.all, ns)
		}
	}
}

// route returns the route of a namespace, which is read if it is not cached. Errors:
// those of reading config, 73 for the database local.
func (r *Router) route(ctx context.Context, ns string) (*route, error) {
	e := r.routes.of(ns)
	if rt := e.current.Load(); rt != nil {
		return rt, nil
	}
	return r.readRoute(ctx, ns, e, nil)
}

// newestRoute returns the route of a namespace as the config servers have it now, for
// what shards answer without a look at its version.
func (r *Router) newestRoute(ctx context.Context, ns string) (*route, error) {
	rt, err := r.route(ctx, ns)
	if err != nil {
		return nil, err
	}
	return r.fresher(ctx, rt)
}

// fresher returns a route of a namespace that is newer than a stale one.
func (r *Router) fresher(ctx context.Context, old *route) (*route, error) {
	return r.readRoute(ctx, old.ns, r.routes.of(old.ns), old)
}

// readRoute reads a route, unless another caller has read it in the meantime. Reads of a
// namespace are serialized.
func (r *Router) readRoute(ctx context.Context, ns string, e *routed, old *route) (*route, error) {
	leave, err := inTurn(ctx, e.turn)
	if err != nil {
		return nil, err
	}
	defer leave()
	known := e.current.Load()
	if known != nil && known != old {
		return known, nil
	}
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		rt, err := r.loadRoute(ctx, ns, known)
		if err == nil {
			// A database that does not exist is not remembered: nobody reports that route as
			// stale when another router has created it.
			if rt.primary == "" {
				e.current.Store(nil)
			} else {
				e.current.Store(rt)
			}
			return rt, nil
		}
		// The chunks changed while they were read.
		if !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) || pause > time.Second {
			return nil, err
		}
		known = nil
		if err := client.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// inTurn waits for a turn, a channel with room for one, and takes it until leave is called.
// Who has it may wait for other servers. Errors: the cause of ctx.
func inTurn(ctx context.Context, turn chan struct{}) (leave func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// loadRoute reads a route from the config servers. known, if not nil, is the previous route.
func (r *Router) loadRoute(ctx context.Context, ns string, known *route) (*route, error) {
	db, _, _ := strings.Cut(ns, ".")
	rt := &route{ns: strings.Clone(ns), db: strings.Clone(db)}
	switch db {
	case "admin":
		rt.primary = configShard
		return rt, nil
	case "config":
		rt.primary = configShard
		if ns != "config.system.sessions" {
			return rt, nil
		}
	case "local":
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "Can't use 'local' database through mongos")
	default:
		docs, err := r.readConfig(ctx, "databases", new(bson.Builder).String("_id", db).Finish(), nil)
		if err != nil || len(docs) == 0 {
			return rt, err
		}
		primary, version := docs[0].Lookup("primary"), docs[0].Lookup("version")
		if primary.Type != bson.TypeString || version.Type != bson.TypeDocument {
			return nil, mongoerr.New(mongoerr.UnsupportedFormat, "invalid document in config.databases: %s", docs[0])
		}
		rt.primary, rt.version = strings.Clone(primary.Str()), version.Doc().Clone()
	}
	return rt, r.loadChunks(ctx, rt, known)
}

// loadChunks reads the chunks of a sharded collection, and its options.
func (r *Router) loadChunks(ctx context.Context, rt, known *route) error {
	names := new(bson.Builder).OpenDoc("_id").Strings("$in", rt.ns, schema.ParseNamespace(rt.ns).Buckets().String()).Close().Finish()
	docs, err := r.readConfig(ctx, "collections", names, nil)
	if err != nil || len(docs) == 0 || docs[0].Lookup("dropped").Truthy() {
		return err
	}
	c := docs[0]
	epoch, timestamp, uuid := c.Lookup("lastmodEpoch"), c.Lookup("timestamp"), c.Lookup("uuid")
	if epoch.Type != bson.TypeObjectID || timestamp.Type != bson.TypeTimestamp || uuid.Type != bson.TypeBinary {
		return mongoerr.New(mongoerr.UnsupportedFormat, "invalid document in config.collections: %s", c)
	}
	if fields := document(c.Lookup("timeseriesFields")); !fields.IsEmpty() && c.Lookup("_id").Str() != rt.ns {
		rt.timeseries = schema.LoadTimeseries(fields.Clone())
	}
	generation := shard.Generation{Epoch: epoch.ObjectID(), Timestamp: timestamp.Timestamp()}
	rt.unsplittable = c.Lookup("unsplittable").Truthy()
	if spec := document(c.Lookup("defaultCollation")); !spec.IsEmpty() {
		if rt.collation, err = schema.ParseCollation(spec); err != nil {
			return err
		}
	}
	filter := new(bson.Builder).Value("uuid", uuid)
	var key *shard.Key
	again := known != nil && known.chunks != nil && known.chunks.Version().ShardGeneration == generation
	if again {
		key = known.chunks.Key()
		filter.OpenDoc("lastmod").Timestamp("$gte", known.chunks.Version().Lastmod()).Close()
	} else if key, err = shard.ParseKey(document(c.Lookup("key"))); err != nil {
		return err
	}
	if again {
		var changes []shard.Chunk
		err = r.eachConfig(ctx, configQuery{coll: "chunks", filter: filter.Finish(), snapshot: true, fields: chunkFields}, func(d bson.Doc) error {
			c, err := key.ParseChunk(generation, d)
			changes = append(changes, c)
			return err
		})
		if err == nil {
			rt.chunks, err = known.chunks.With(changes)
		}
		return err
	}
	b := shard.NewBuilder(rt.ns, key, generation)
	err = r.eachConfig(ctx, configQuery{coll: "chunks", filter: filter.Finish(), sort: byMin, snapshot: true, fields: chunkFields}, func(d bson.Doc) error {
		c, err := key.ParseChunk(generation, d)
		if err != nil {
			return err
		}
		return b.Add(c)
	})
	if err == nil {
		rt.chunks, err = b.Map()
	}
	return err
}

// chunkFields are the fields of config.chunks that a router has a use for, less than half of
// their bytes.
var chunkFields = new(bson.Builder).Int32("_id", 0).Int32("min", 1).Int32("max", 1).Int32("shard", 1).Int32("lastmod", 1).Finish()

var byMin = new(bson.Builder).Int32("min", 1).Finish()
