package cosmos

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// The namespaces of the definitions.
var (
	databasesNamespace  = schema.Namespace{DB: "config", Coll: "cosmos.databases"}
	containersNamespace = schema.Namespace{DB: "config", Coll: "cosmos.containers"}
)

// maxResources bounds the databases, and the containers of each.
const maxResources = 10000

// registry is the databases and containers of the account. Definitions are
// immutable; a change replaces them, on disk first.
type registry struct {
	catalog *catalog.Catalog
	keeper  keeper

	// changes is held by whoever changes a definition, also while it waits for other servers: who
	// waits for it can be interrupted.
	changes chan struct{}
	mu      sync.RWMutex
	dbs     map[string]*database
}

type database struct {
	id, rid, etag string
	seconds       int64 // _ts
	offer         bson.Doc
	containers    map[string]*container
}

func newRegistry(c *catalog.Catalog) *registry {
	return &registry{catalog: c, changes: make(chan struct{}, 1), dbs: map[string]*database{}}
}

// change waits until nobody changes definitions; nobody does until leave is called. Errors: the
// cause of ctx's end.
func (g *registry) change(ctx context.Context) (leave func(), err error) {
	select {
	case g.changes <- struct{}{}:
		return func() { <-g.changes }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// keeper makes, changes and removes the collections of containers: in the server's own
// catalog (local), or in a cluster (clusterKeeper).
type keeper interface {
	// load finds the collection of a definition that was read; it sets c.writes if there is one.
	// adopts is as for Server.load.
	load(ctx context.Context, c *container, adopts bool) error
	exists(c *container) bool
	// check rejects a definition that this server cannot have. Errors: 400.
	check(c *container) error
	// create stores the definition of a container, and makes its collection, with its indexes and
	// its rule. Errors: 400 if the catalog rejects the unique keys.
	create(ctx context.Context, c *container) error
	// change has the collection follow a changed definition, except its indexes.
	change(ctx context.Context, c *container) error
	// drop removes the collection and all that belongs to it. One that is gone is no error.
	drop(ctx context.Context, c *container) error
	// retain has the log be kept for as long as the definitions say.
	retain(ctx context.Context) error
	// names lists the collections and views of a database.
	names(ctx context.Context, db string) ([]schema.Namespace, error)
	// dropExcluded drops the indexes that the policy no longer includes.
	dropExcluded(ctx context.Context, c *container) error
}

// use sets the server's keeper.
func (s *Server) use(k keeper) { s.keeper, s.registry.keeper = k, k }

// load reads all definitions, except those whose collection was dropped. It also runs
// when a member becomes writable, as others may have changed them. adopts says that the
// server may write: it makes containers of earlier versions what they are now.
func (s *Server) load(ctx context.Context, adopts bool) error {
	g, x := s.registry, s.o.Exec
	dbs := map[string]*database{}
	err := eachDocument(ctx, x, databasesNamespace, func(d bson.Doc) error {
		d = d.Clone() // its strings are kept
		db := &database{
			id: d.Lookup("_id").Str(), rid: d.Lookup("rid").Str(), etag: d.Lookup("etag").Str(), seconds: d.Lookup("ts").Int64(),
			containers: map[string]*container{},
		}
		if o := d.Lookup("offer"); o.Type == bson.TypeDocument {
			db.offer = o.Doc()
		}
		dbs[db.id] = db
		if adopts {
			return g.dropOldLogs(ctx, db.id)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = eachDocument(ctx, x, containersNamespace, func(d bson.Doc) error {
		c, err := loadContainer(d.Clone())
		if err != nil {
			return err
		}
		if db := dbs[c.db]; db != nil {
			if err := s.keeper.load(ctx, c, adopts); err != nil {
				return err
			}
			if c.writes != nil {
				db.containers[c.id] = c
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.dbs = dbs
	g.mu.Unlock()
	return s.retain(ctx)
}

// stepUp reloads the definitions, which another member may have changed.
func (s *Server) stepUp(ctx context.Context) error {
	leave, err := s.registry.change(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return s.load(ctx, true)
}

// eachDocument calls f for all documents of a collection.
func eachDocument(ctx context.Context, x *exec.Executor, ns schema.Namespace, f func(bson.Doc) error) error {
	c := x.Catalog.Lookup(ns)
	if c == nil {
		return nil
	}
	return find(ctx, x, c, bson.Empty, nil, 0, func(d bson.Doc) (bool, error) { return true, f(d) })
}

// find calls f for the documents that match a filter, in the order of sort, nil for
// that of the records, until f returns false.
func find(ctx context.Context, x *exec.Executor, c *catalog.Collection, filter, sort bson.Doc, limit int64, f func(bson.Doc) (bool, error)) error {
	_, err := findFor(ctx, nil, x, c, filter, sort, limit, f)
	return err
}

// findFor is find for a request, nil for none, to whose operation it adds the cursor's
// statistics. It returns how many documents were read. Errors: 13388 where a router's version
// of the collection is not this shard's.
func findFor(ctx context.Context, r *request, x *exec.Executor, c *catalog.Collection, filter, sort bson.Doc, limit int64, f func(bson.Doc) (bool, error)) (docs int64, err error) {
	q := newQuery()
	q.Limit = limit
	return findBy(ctx, r, x, c, q, filter, sort, f)
}

func newQuery() *exec.Query {
	return &exec.Query{Query: plan.Query{Env: expr.NewEnv(0)}, AllowDiskUse: true}
}

// findBy is findFor by a query that has no filter and no sort yet.
func findBy(ctx context.Context, r *request, x *exec.Executor, c *catalog.Collection, q *exec.Query, filter, sort bson.Doc, f func(bson.Doc) (bool, error)) (docs int64, err error) {
	if c = c.Latest(); c == nil {
		return 0, errNotFound
	}
	if q.Filter, err = match.Parse(filter, nil); err != nil {
		return 0, err
	}
	if sort != nil {
		if q.Sort, err = sortkey.Parse(sort); err != nil {
			return 0, err
		}
	}
	if r != nil {
		q.Held = r.holding(c)
	}
	cur, err := x.Find(ctx, c, q)
	if err != nil {
		return 0, err
	}
	defer cur.Close()
	if r != nil {
		observe(r.op, cur)
		defer func() { docs = book(r.op, cur) }()
	}
	for more := true; more; {
		d, err := cur.Next(ctx)
		if err != nil {
			return 0, err
		}
		if d == nil {
			break
		}
		if more, err = f(d); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// observe adds a cursor's plan to an operation.
func observe(op *command.Op, cur *exec.Cursor) {
	summary := cur.Summary()
	if strings.HasPrefix(summary, "COLLSCAN") {
		op.Dispatcher.CountScan(op.NS, false)
	}
	op.SetPlanSummary(summary)
	s := &op.Stats
	s.IsQuery, s.FromMultiPlanner, s.ExecStats = true, cur.FromTrial(), cur
	s.QueryHash, s.PlanCacheKey, s.FromPlanCache, s.Replanned = cur.Choice()
}

// book adds a cursor's counters to the operation, and returns how many documents it has
// read.
func book(op *command.Op, cur *exec.Cursor) int64 {
	keys, docs := cur.Examined()
	s := &op.Stats
	s.KeysExamined += keys
	s.DocsExamined += docs
	sorts, spilled := cur.Sorts()
	s.HasSortStage, s.UsedDisk = s.HasSortStage || sorts, s.UsedDisk || spilled
	return docs
}

// put stores a definition.
func (g *registry) put(ctx context.Context, ns schema.Namespace, doc bson.Doc) error {
	return g.replace(ctx, ns, doc.Lookup("_id"), doc)
}

// replace stores a definition, and removes the one with an _id if its own is another one.
func (g *registry) replace(ctx context.Context, ns schema.Namespace, was bson.Value, doc bson.Doc) error {
	c, err := g.collection(ctx, ns)
	if err != nil {
		return err
	}
	return g.catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		if !bson.Equal(was, doc.Lookup("_id")) {
			gone := c.AppendIDKey(nil, was)
			if old, err := u.LockRecord(ctx, c, gone); err != nil {
				return err
			} else if old != nil {
				if err := u.Delete(ctx, c, gone, old); err != nil {
					return err
				}
			}
		}
		key := c.AppendIDKey(nil, doc.Lookup("_id"))
		old, err := u.LockRecord(ctx, c, key)
		if err != nil {
			return err
		}
		if old == nil {
			return u.Insert(ctx, c, doc)
		}
		return u.Update(ctx, c, key, old, doc)
	})
}

// remove removes a definition.
func (g *registry) remove(ctx context.Context, ns schema.Namespace, id bson.Value) error {
	c, err := g.collection(ctx, ns)
	if err != nil {
		return err
	}
	return g.catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		key := c.AppendIDKey(nil, id)
		old, err := u.LockRecord(ctx, c, key)
		if err != nil || old == nil {
			return err
		}
		return u.Delete(ctx, c, key, old)
	})
}

func (g *registry) collection(ctx context.Context, ns schema.Namespace) (*catalog.Collection, error) {
	if c := g.catalog.Lookup(ns); c != nil {
		return c, nil
	}
	c, err := g.catalog.Create(ctx, ns, bson.Empty)
	if mongoerr.Is(err, mongoerr.NamespaceExists) {
		return g.catalog.Lookup(ns), nil
	}
	return c, err
}

// database finds a database. Errors: 404.
func (g *registry) database(id string) (*database, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if d := g.dbs[id]; d != nil {
		return d, nil
	}
	return nil, errNotFound
}

// container finds a container whose collection still exists. Errors: 404.
func (g *registry) container(db, id string) (*container, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	d := g.dbs[db]
	if d == nil || d.containers[id] == nil || !g.keeper.exists(d.containers[id]) {
		return nil, errNotFound
	}
	return d.containers[id], nil
}

// databases lists the databases by the time of their creation.
func (g *registry) databases() []*database {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.SortedFunc(maps.Values(g.dbs), func(a, b *database) int {
		return compareAges(a.seconds, b.seconds, a.id, b.id)
	})
}

// list returns a database's containers by the time of their creation.
func (g *registry) list(d *database) []*container {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.SortedFunc(maps.Values(d.containers), func(a, b *container) int {
		return compareAges(a.created, b.created, a.id, b.id)
	})
}

func compareAges(a, b int64, aID, bID string) int {
	switch {
	case a != b:
		return int(a - b)
	case aID < bID:
		return -1
	case aID > bID:
		return 1
	}
	return 0
}

// publish makes d, or its replacement, visible to requests.
func (g *registry) publish(d *database) {
	g.mu.Lock()
	g.dbs[d.id] = d
	g.mu.Unlock()
}

// with returns a copy of d with one container added, replaced or, if c is nil, removed.
func (d *database) with(id string, c *container) *database {
	n := *d
	n.containers = maps.Clone(d.containers)
	if c == nil {
		delete(n.containers, id)
	} else {
		n.containers[id] = c
	}
	return &n
}
