package router

import (
	"context"
	"github.com/mayflydb/mayfly/internal/access"
	"github.com/mayflydb/mayfly/internal/auth"
	"maps"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// lists returns the commands that list databases, collections, indexes and shards.
func (r *Router) lists() []*command.Command {
	return []*command.Command{
		{Name: "listDatabases", Flags: command.AdminOnly | command.APIv1, Help: "list databases", Run: r.runListDatabases},
		{Name: "listCollections", Flags: command.APIv1, Help: "list collections", Run: r.runListCollections},
		{Name: "listIndexes", Flags: command.APIv1, Help: "list indexes", Run: r.runListIndexes},
		{Name: "listShards", Flags: command.AdminOnly, Help: "list all shards of the system", Run: r.runListShards},
		{Name: "getShardMap", Flags: command.AdminOnly, Help: "lists the set of shards known to this instance", Run: r.runShardMap},
		{Name: "getShardVersion", Help: "the version of a collection", Run: r.runShardVersion},
		{Name: "flushRouterConfig", Flags: command.AdminOnly, Help: "flush all router config", Run: r.runFlush},
	}
}

// runListCollections asks the primary shard of the database, which has an entry for each
// collection.
func (r *Router) runListCollections(ctx context.Context, op *command.Op) error {
	ns := op.DB + ".$cmd"
	return r.byRoute(ctx, op, ns, func(rt *route) error {
		name := rt.owners()[0]
		b := new(bson.Builder).Int32("listCollections", 1)
		appendRest(b, op.Body)
		if rt.version != nil {
			b.Doc("databaseVersion", rt.version)
		}
		const ns = ".$cmd.listCollections"
		if op.Controlled() && op.Body.Lookup("authorizedCollections").Truthy() {
			return r.listAuthorized(ctx, op, name, b.Finish(), op.DB+ns)
		}
		return r.passList(ctx, op, rt, name, b.Finish(), op.DB+ns)
	})
}

// listAuthorized answers with those of the collections of a shard that the client may know
// of: the shard, which the router asks in the name of all, shows every one.
func (r *Router) listAuthorized(ctx context.Context, op *command.Op, name string, body bson.Doc, ns string) error {
	a, err := r.ask(ctx, op, question{shard: name, db: op.DB, body: body, reads: true})
	if err != nil {
		return err
	}
	m, err := r.newRemote(op, name, a)
	if err != nil {
		return err
	}
	defer closeAll([]*remote{m})
	var docs []bson.Doc
	for {
		d, err := m.next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			break
		}
		if access.Sees(op, op.DB, d.Lookup("name").Str()) {
			docs = append(docs, d)
		}
	}
	return command.WriteCursorReply(ctx, op, command.CursorSpec{NS: ns, Cursor: command.Documents(docs), BatchSize: command.DefaultBatch})
}

// passList runs a command on one shard, and returns its cursor.
func (r *Router) passList(ctx context.Context, op *command.Op, rt *route, name string, body bson.Doc, ns string) error {
	a, err := r.ask(ctx, op, question{shard: name, db: op.DB, body: body, reads: true})
	if err != nil {
		return err
	}
	named := *rt
	named.ns = ns
	return r.passCursor(ctx, op, &named, name, a)
}

// runListIndexes asks the shard that owns the lowest chunk.
func (r *Router) runListIndexes(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	return r.byRoute(ctx, op, ns, func(rt *route) error {
		name := rt.owners()[0]
		if rt.chunks != nil {
			name = rt.chunks.ShardOf(rt.chunks.Key().Min().Key)
		}
		b := new(bson.Builder).String("listIndexes", op.Collection)
		appendRest(b, op.Body)
		rt.appendVersions(b, name)
		return r.passList(ctx, op, rt, name, b.Finish(), ns)
	})
}

// runListDatabases sums up the databases of all shards.
func (r *Router) runListDatabases(ctx context.Context, op *command.Op) error {
	names, err := r.shards.names(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(names, configShard) {
		names = append(names, configShard)
	}
	lists, err := each(names, func(name string) ([]bson.Doc, error) {
		a, err := r.ask(ctx, op, question{shard: name, db: "admin", body: new(bson.Builder).Int32("listDatabases", 1).Finish(), reads: true})
		return documents(a.Reply.Lookup("databases")), err
	})
	if err != nil {
		return err
	}
	filter, err := node.ListFilter(op.Args.Doc("filter"))
	if err != nil {
		return err
	}
	every := op.May(auth.On(auth.Cluster, auth.ListDatabases))
	if asked := op.Body.Lookup("authorizedDatabases"); !every && !asked.IsMissing() && !asked.Truthy() {
		return mongoerr.New(mongoerr.Unauthorized, "Insufficient permissions to list all databases")
	} else if every && asked.Truthy() {
		every = false
	}
	databases := sumDatabases(names, lists)
	nameOnly := op.Body.Lookup("nameOnly").Truthy()
	var total int64
	i := 0
	op.Reply.OpenArray("databases")
	for _, d := range databases {
		if !every && !access.Sees(op, d.Lookup("name").Str(), "") {
			continue
		}
		bytes := sizeOf(d.Lookup("sizeOnDisk"), 0)
		if nameOnly { // the filter sees no more
			d = new(bson.Builder).Value("name", d.Lookup("name")).Finish()
		}
		ok, err := filter.Match(d)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		total += bytes
		op.Reply.Doc(bson.Index(i), d)
		i++
	}
	op.Reply.Close()
	if !nameOnly {
		op.Reply.Int64("totalSize", total).Int64("totalSizeMb", total>>20)
	}
	return nil
}

// sumDatabases returns the databases of all shards, with the size on each. Databases of
// the config servers are counted only there; local is left out.
func sumDatabases(names []string, lists [][]bson.Doc) []bson.Doc {
	type sum struct {
		bytes  int64
		empty  bool
		shards bson.Builder
	}
	all := map[string]*sum{}
	for i, shard := range names {
		for _, d := range lists[i] {
			name := d.Lookup("name")
			if name.Type != bson.TypeString || name.Str() == "local" || isOnConfig(name.Str()) && shard != configShard {
				continue
			}
			s := all[name.Str()]
			if s == nil {
				s = &sum{empty: true}
				all[strings.Clone(name.Str())] = s
			}
			bytes := sizeOf(d.Lookup("sizeOnDisk"), 0)
			s.bytes += bytes
			s.empty = s.empty && d.Lookup("empty").Truthy()
			s.shards.Int64(shard, bytes)
		}
	}
	var out []bson.Doc
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		out = append(out, new(bson.Builder).String("name", name).Int64("sizeOnDisk", s.bytes).Bool("empty", s.empty).Doc("shards", s.shards.Finish()).Finish())
	}
	return out
}

func (r *Router) runListShards(ctx context.Context, op *command.Op) error {
	filter, err := match.Parse(document(op.Body.Lookup("filter")), &match.Options{})
	if err != nil {
		return err
	}
	list, err := r.shards.list(ctx)
	if err != nil {
		return err
	}
	op.Reply.OpenArray("shards")
	i := 0
	for _, k := range list {
		ok, err := filter.Match(k.doc)
		if err != nil {
			return err
		}
		if ok {
			op.Reply.Doc(bson.Index(i), k.doc)
			i++
		}
	}
	op.Reply.Close()
	return nil
}

func (r *Router) runShardMap(ctx context.Context, op *command.Op) error {
	list, err := r.shards.list(ctx)
	if err != nil {
		return err
	}
	all := map[string]string{configShard: r.config.At().String()}
	for _, k := range list {
		all[k.name] = k.host
	}
	var byName, byHost, byString bson.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at, err := client.ParseSetString(all[name])
		if err != nil {
			return err
		}
		byName.String(name, all[name])
		byString.String(all[name], name)
		for _, h := range at.Hosts {
			byHost.String(h, name)
		}
	}
	op.Reply.Doc("map", byName.Finish()).Doc("hosts", byHost.Finish()).Doc("connStrings", byString.Finish())
	return nil
}

// runShardVersion returns the version of a sharded collection. Error 26 for others.
func (r *Router) runShardVersion(ctx context.Context, op *command.Op) error {
	_, v := op.Body.First()
	if v.Type != bson.TypeString {
		return mongoerr.New(mongoerr.TypeMismatch, "getShardVersion takes a namespace, found %s", v.Type)
	}
	rt, err := r.newestRoute(ctx, v.Str())
	if err != nil {
		return err
	}
	if rt.chunks == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "ns [%s] isn't tracked", v.Str())
	}
	at := rt.chunks.Version()
	op.Reply.Timestamp("version", at.Lastmod()).ObjectID("versionEpoch", at.Epoch).Timestamp("versionTimestamp", at.Timestamp)
	return nil
}

// runFlush forgets the routes of a namespace, of a database, or all.
func (r *Router) runFlush(_ context.Context, op *command.Op) error {
	_, v := op.Body.First()
	of := ""
	if v.Type == bson.TypeString {
		of = v.Str()
	}
	r.routes.forget(func(ns string) bool { return of == "" || ns == of || strings.HasPrefix(ns, of+".") })
	op.Reply.Bool("flushed", true)
	return nil
}
