package cosmos

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// The commands by which a router has the primary of the config servers run a request on
// definitions, and by which a shard gets numbers for a container.
const (
	onConfig        = "_configsvrCosmos"
	numbersOnConfig = "_configsvrCosmosNumbers"
	indexOnConfig   = "_configsvrCosmosIndex"
)

// Config is what a config server gives its part of the endpoint.
type Config struct {
	// Key returns the shard key of a collection, nil if it is not sharded.
	Key func(ns string) (bson.Doc, error)
	// Names lists the collections and views of a database, Indexes the names of the indexes
	// of a sharded collection.
	Names   func(ctx context.Context, db string) ([]string, error)
	Indexes func(ctx context.Context, ns string) ([]string, error)
	// Retain has all shards keep their logs for a time.
	Retain func(ctx context.Context, d time.Duration) error
}

// NewConfig makes the Server of a config server, which keeps the definitions of all containers
// of the cluster, and registers its commands. Of o it uses Catalog, Exec, Dispatcher and Log.
func NewConfig(o Options, config Config) (*Server, error) {
	s, err := newServer(o, nil)
	if err != nil {
		return nil, err
	}
	s.use(clusterKeeper{s, config})
	o.Catalog.OnStepUp(s.stepUp)
	flags := command.AdminOnly | command.TakesWriteConcern
	for _, c := range []*command.Command{
		{Name: onConfig, Run: s.runOnConfig, Fields: command.NewFields(onConfig, append([]*command.Field{command.Value(command.Int32("")), command.OneOf("tokenKey", bson.TypeBinary)}, requestFields()...)...)},
		{Name: indexOnConfig, Run: s.runIndex, Fields: command.NewFields(indexOnConfig, command.Value(command.String("")), command.String("database").Required(), command.String("container").Required())},
		{Name: numbersOnConfig, Run: s.runNumbers, Fields: command.NewFields(numbersOnConfig, command.Value(command.String("")))},
	} {
		c.Flags, c.Help = flags, "what routers and shards ask about containers"
		o.Dispatcher.Registry.Register(c)
	}
	return s, nil
}

func (s *Server) runOnConfig(ctx context.Context, op *command.Op) error {
	if err := s.o.Dispatcher.TakesWrites(); err != nil {
		return err
	}
	return s.serveForwarded(ctx, op, func(r *request) error {
		switch r.path.kind {
		case kindAccount, kindItem, kindItems, kindPartitionDelete, kindRanges:
			return errURL
		}
		if op.Args.Has("tokenKey") {
			_, r.cluster.tokenKey = op.Args.Value("tokenKey").Binary()
		}
		return nil
	})
}

// runNumbers answers {_configsvrCosmosNumbers: resource id of a container} with {top}: the
// numbersBlock numbers up to it are the shard's that has asked.
func (s *Server) runNumbers(ctx context.Context, op *command.Op) error {
	if err := s.o.Dispatcher.TakesWrites(); err != nil {
		return err
	}
	g := s.registry
	rid := op.Args.Str(numbersOnConfig)
	c, err := g.collection(ctx, numbersNamespace)
	if err != nil {
		return err
	}
	top := int64(0)
	err = g.catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		record, old, err := u.LockID(ctx, c, bson.String(rid))
		if err != nil {
			return err
		}
		top, _ = bson.ExactInt64(old.Lookup("ceiling"))
		top += numbersBlock
		doc := new(bson.Builder).String("_id", rid).Int64("ceiling", top).Finish()
		if old == nil {
			return u.Insert(ctx, c, doc)
		}
		return u.Update(ctx, c, record, old, doc)
	})
	if err == nil {
		op.Reply.Int64("top", top)
	}
	return err
}

// runIndex answers {_configsvrCosmosIndex: name, database, container}: it makes an index that
// queries want on all shards, if the policy includes it.
func (s *Server) runIndex(ctx context.Context, op *command.Op) error {
	if err := s.o.Dispatcher.TakesWrites(); err != nil {
		return err
	}
	c, err := s.registry.container(op.Args.Str("database"), op.Args.Str("container"))
	if err != nil {
		return nil // it is gone
	}
	k, name := s.keeper.(clusterKeeper), op.Args.Str(indexOnConfig)
	ns, spec := namespace(c.db, c.id), c.indexing.spec(name)
	names, err := k.Indexes(ctx, ns.String())
	if err != nil || spec == nil || slices.Contains(names, name) {
		return err
	}
	if n := len(slices.DeleteFunc(names, func(name string) bool { return !onDemand(name) })); n >= maxPathIndexes {
		return nil
	}
	if err := k.createIndexes(ctx, ns, []bson.Doc{spec}); err != nil {
		return err
	}
	// The policy may have changed in the meantime.
	if c, err = s.registry.container(c.db, c.id); err != nil {
		return nil
	}
	return k.dropExcluded(ctx, c)
}

// clusterKeeper is the keeper of a config server: a container is a collection that is sharded
// by the hash of its partition key.
type clusterKeeper struct {
	s *Server
	Config
}

// containerKey is the shard key of a container's collection.
var containerKey = new(bson.Builder).String("_id.p", "hashed").Finish()

// inside is the client of commands that this server gives itself.
var inside = &command.Client{Internal: true}

// run runs a command on the database admin of this server, for a client for whom a block of user
// writes holds.
func (k clusterKeeper) run(ctx context.Context, body bson.Doc) error {
	_, err := k.s.run(ctx, adminDB, new(bson.Builder).Fields(body).Bool("mayBypassWriteBlocking", false).Finish())
	return err
}

// run runs a command on this server.
func (s *Server) run(ctx context.Context, db string, body bson.Doc) (bson.Doc, error) {
	r := s.o.Dispatcher.Dispatch(ctx, &command.Request{Client: inside, DB: db, Body: body})
	defer r.Release()
	reply := r.Body.Clone()
	if reply.Lookup("ok").Truthy() {
		return reply, nil
	}
	text := reply.Lookup("errmsg")
	message := ""
	if text.Type == bson.TypeString {
		message = text.Str()
	}
	return reply, mongoerr.New(mongoerr.Code(bson.ClampToInt64(reply.Lookup("code"))), "%s", message)
}

// load implements keeper.
func (k clusterKeeper) load(_ context.Context, c *container, _ bool) error {
	c.writes = &catalog.Numbering{}
	return nil
}

// exists implements keeper.
func (k clusterKeeper) exists(c *container) bool {
	key, err := k.Key(namespace(c.db, c.id).String())
	return err == nil && bson.CompareDocs(key, containerKey, nil) == 0
}

// create implements keeper. A collection that is a container's, but has no definition, is what
// is left of a creation that ended early: nobody has written to it. Its definition is stored after
// it is made, as routers rely on.
func (k clusterKeeper) create(ctx context.Context, c *container) error {
	// Where the server died between the two steps of a deletion.
	if err := k.s.registry.remove(ctx, containersNamespace, c.storedID()); err != nil {
		return err
	}
	c.writes = &catalog.Numbering{}
	ns := namespace(c.db, c.id)
	left := k.exists(c)
	if !left {
		names, err := k.Names(ctx, ns.DB)
		if err != nil {
			return err
		}
		if slices.Contains(names, ns.Coll) {
			return mongoerr.New(mongoerr.NamespaceExists, "a collection '%s' already exists", ns)
		}
	}
	err := k.run(ctx, new(bson.Builder).String("_configsvrShardCollection", ns.String()).Doc("key", containerKey).Finish())
	if err == nil && left {
		err = k.dropIndexes(ctx, ns, func(name string) bool { return name == ruleName || isUniqueKey(name) })
	}
	if err != nil {
		return err
	}
	own, unique := c.indexes()
	if c.ttl.on {
		own = append(own, c.rule())
	}
	err = k.createIndexes(ctx, ns, own)
	if err == nil && (c.retention > 0 || left) {
		err = k.keepImages(ctx, c)
	}
	for _, spec := range unique {
		if err == nil {
			if err = k.createIndexes(ctx, ns, []bson.Doc{spec}); err != nil {
				err = badRequest("The unique key policy is invalid: %v", err)
			}
		}
	}
	if err == nil {
		return k.s.registry.put(ctx, containersNamespace, c.stored())
	}
	// A definition that the catalog rejects leaves nothing behind.
	if dropErr := k.drop(ctx, c); dropErr != nil {
		return dropErr
	}
	return err
}

// check implements keeper.
func (k clusterKeeper) check(*container) error { return nil }

// retain implements keeper.
func (k clusterKeeper) retain(ctx context.Context) error {
	most, err := k.s.mostRetention(ctx)
	if err != nil {
		return err
	}
	return k.Retain(ctx, most)
}

// keepImages makes the container's collection keep pre-images, or not; if it does, all shards
// keep their logs before.
func (k clusterKeeper) keepImages(ctx context.Context, c *container) error {
	if c.retention > 0 {
		most, err := k.s.mostRetention(ctx)
		if err != nil {
			return err
		}
		if err := k.Retain(ctx, max(most, c.retention)); err != nil {
			return err
		}
	}
	ns := namespace(c.db, c.id)
	b := new(bson.Builder).String("_configsvrCollMod", ns.String()).OpenDoc("command").String("collMod", ns.Coll)
	return k.run(ctx, b.OpenDoc("changeStreamPreAndPostImages").Bool("enabled", c.retention > 0).Close().Close().Finish())
}

func (k clusterKeeper) createIndexes(ctx context.Context, ns schema.Namespace, specs []bson.Doc) error {
	b := new(bson.Builder).String("_configsvrCreateIndexes", ns.String()).OpenDoc("command").String("createIndexes", ns.Coll).OpenArray("indexes")
	for i, spec := range specs {
		b.Doc(bson.Index(i), spec)
	}
	return k.run(ctx, b.Close().Close().Finish())
}

// change implements keeper: the rule of the collection, as local has it by setRule.
func (k clusterKeeper) change(ctx context.Context, c *container) error {
	ns := namespace(c.db, c.id)
	if was, err := k.s.registry.container(c.db, c.id); err != nil || was.retention != c.retention {
		if err == nil {
			err = k.keepImages(ctx, c)
		}
		if err != nil {
			return err
		}
	}
	// The index and not the definition says whether there is a rule: a change may have ended
	// between the two.
	names, err := k.Indexes(ctx, ns.String())
	if err != nil {
		return err
	}
	switch ruled := slices.Contains(names, ruleName); {
	case !ruled && !c.ttl.on:
		return nil
	case !ruled:
		return k.createIndexes(ctx, ns, []bson.Doc{c.rule()})
	}
	b := new(bson.Builder).String("_configsvrCollMod", ns.String()).OpenDoc("command").String("collMod", ns.Coll).OpenDoc("index").String("name", ruleName)
	if c.ttl.on {
		b.Int64("expireAfterSeconds", c.ttl.expireAfter())
	}
	b.OpenDoc("storageEngine").OpenDoc("mayfly").OpenDoc("expiry").Bool("paused", !c.ttl.on).Close().Close().Close()
	return k.run(ctx, b.Close().Close().Finish())
}

// drop implements keeper.
func (k clusterKeeper) drop(ctx context.Context, c *container) error {
	return k.run(ctx, new(bson.Builder).String("_configsvrDrop", namespace(c.db, c.id).String()).Finish())
}

// names implements keeper.
func (k clusterKeeper) names(ctx context.Context, db string) (all []schema.Namespace, err error) {
	names, err := k.Names(ctx, db)
	for _, name := range names {
		all = append(all, schema.Namespace{DB: db, Coll: name})
	}
	return all, err
}

// dropExcluded implements keeper.
func (k clusterKeeper) dropExcluded(ctx context.Context, c *container) error {
	return k.dropIndexes(ctx, namespace(c.db, c.id), func(name string) bool { return onDemand(name) && !c.indexing.allows(name) })
}

// dropIndexes drops the indexes that goes says so of, by their names.
func (k clusterKeeper) dropIndexes(ctx context.Context, ns schema.Namespace, goes func(name string) bool) error {
	names, err := k.Indexes(ctx, ns.String())
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(names, func(name string) bool { return !goes(name) })
	if len(gone) == 0 {
		return nil
	}
	b := new(bson.Builder).String("_configsvrDropIndexes", ns.String()).OpenDoc("command").String("dropIndexes", ns.Coll).Strings("index", gone...)
	return k.run(ctx, b.Close().Finish())
}

// onDemand reports whether an index of a name was made because queries asked for it.
func onDemand(name string) bool {
	return strings.HasPrefix(name, pathIndexPrefix) || strings.HasPrefix(name, compositeIndexPrefix) || strings.HasPrefix(name, spatialIndexPrefix)
}
