package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/catalog/pending"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Committer commits units: on a standalone to the engine, in a replica set through
// the log. Package repl has both.
type Committer interface {
	// Commit returns when an effect has been applied on this member (Effect.Apply),
	// and is as durable as d asks. After an error it has left no trace, unless the
	// error says that the outcome is not known. The effect must not be used
	// afterwards: a Committer that may have to apply it later keeps its encoding.
	Commit(ctx context.Context, e *Effect, d storage.Durability) error
	// Writable returns nil if this member accepts writes, else the error for the
	// client: 10107 on a member that is not primary.
	Writable() error
}

// Evaluation identifies the state of a replicated group on which something is
// evaluated.
type Evaluation = pending.Evaluation

// evaluator is a Committer that needs to know when the evaluation of each effect began:
// before the first read that the effect depends on. It may report that effects are
// ordered (Effect.Ordered).
type evaluator interface{ Evaluate() Evaluation }

// engineCommitter commits to the engine.
type engineCommitter struct{}

func (engineCommitter) Commit(ctx context.Context, e *Effect, d storage.Durability) error {
	return e.Commit(ctx, d)
}

func (engineCommitter) Writable() error { return nil }

// Options configures a catalog.
type Options struct {
	Committer Committer      // nil: the engine commits
	Log       *slog.Logger   // nil: discard
	Clock     *Clock         // nil: the computer's
	Memory    *memory.Budget // shared by all operations; nil for no limit
	// Operations says that effects include the operations for an oplog.
	Operations bool
	// Oplog is the content of local.oplog.rs; nil if there is no such
	// collection.
	Oplog Virtual
}

// Catalog holds all collections of an engine. Safe for use by many goroutines.
type Catalog struct {
	engine     *storage.Engine
	committer  Committer
	evaluator  evaluator // the committer if it is an evaluator, else nil
	log        *slog.Logger
	memory     *memory.Budget
	pending    *pending.Table // of the evaluator's effects; nil without one
	operations bool           // are recorded
	oplog      Virtual        // or nil

	// Clock is the time by which documents expire.
	Clock   *Clock
	evicted atomic.Int64
	noted   atomic.Int64 // records of sessions that were written
	lone    atomic.Int64 // those that transactions have stored for other sessions
	staged  *measurements.Budget

	names  sync.Map // schema.Namespace → *Collection; written under listed's lock
	uuids  sync.Map // UUID → *live
	ttl    ttlList
	onTTL  atomic.Pointer[func()]
	listed struct {
		sync.RWMutex
		dbs   map[string]map[string]*Collection
		lives map[storage.Ident]*live // by the idents of descriptors and of open measurements
		// forming are the collections of open transactions, which no list has.
		forming map[storage.Ident]*Collection
	}
	// showing is the position of the last effect of the log that readers may see; nil for none.
	showing atomic.Pointer[LogPosition]
	// changes counts descriptors that were published.
	changes   atomic.Uint64
	steppedUp stepUps

	// NoWindows keeps collections that get a TTL index from being laid by windows of expiry.
	// Collections that have windows keep them.
	NoWindows atomic.Bool
	// NoExpiredList makes operations record what is removed as a range by its bounds
	// only, and not document by document.
	NoExpiredList atomic.Bool
	stale         staleMarks
	hints         windowHints

	open     openTransactions
	prepared preparedTransactions
	ddl      ddlTurn
	builds   builds
}

// Open loads the catalog. Where this member accepts writes, it then steps up: see
// StepUp.
func Open(e *storage.Engine, opts Options) (*Catalog, error) {
	c := &Catalog{ddl: make(ddlTurn, 1), engine: e, committer: opts.Committer, memory: opts.Memory, log: opts.Log, Clock: opts.Clock, operations: opts.Operations, oplog: opts.Oplog, staged: measurements.NewBudget(0, opts.Memory)}
	if c.Clock == nil {
		c.Clock = NewClock(nil)
	}
	if c.committer == nil {
		c.committer = engineCommitter{}
	}
	if c.evaluator, _ = c.committer.(evaluator); c.evaluator != nil {
		c.pending = pending.NewTable(c.memory)
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.listed.dbs = map[string]map[string]*Collection{}
	c.listed.lives = map[storage.Ident]*live{}
	c.listed.forming = map[storage.Ident]*Collection{}
	all, err := readDescriptors(e)
	if err != nil {
		return nil, err
	}
	for _, coll := range all {
		if err := c.revive(coll); err != nil {
			return nil, fmt.Errorf("collection %s: %w", coll.Namespace, err)
		}
	}
	c.staged.Book()
	if err := errors.Join(c.readPrepared(), c.removeLeft(context.Background(), true), c.ShowOplog()); err != nil {
		return nil, err
	}
	if c.committer.Writable() == nil {
		return c, c.StepUp(context.Background())
	}
	return c, nil
}

func readDescriptors(r storage.Reader) (all []*Collection, err error) {
	it, err := r.NewIter(storage.IdentCatalog, nil, nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		id, err := storage.ParseIdent(it.Key())
		if err != nil {
			return nil, err
		}
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		coll, err := decode(id, bson.Doc(v).Clone())
		if err != nil {
			return nil, err
		}
		all = append(all, coll)
	}
	return all, it.Err()
}

// revive reads the live state of a stored collection, and publishes it.
func (c *Catalog) revive(coll *Collection) error {
	if err := c.openLive(coll); err != nil {
		return err
	}
	c.publish(coll)
	return nil
}

// openLive reads the stored live state of a collection that has none in memory
// yet.
func (c *Catalog) openLive(coll *Collection) (err error) {
	for _, ix := range coll.indexes {
		paths, err := readPaths(c.engine, ix.Ident)
		if err != nil {
			return err
		}
		if paths != nil {
			ix.live.multikey.shown.Store(&paths)
			ix.live.multikey.durable.Store(&paths)
		}
	}
	if coll.Ident == 0 {
		return nil
	}
	coll.live.hints = &c.hints
	if coll.live.counter, err = c.engine.OpenCounter(coll.Ident); err != nil {
		return err
	}
	if coll.sections != nil {
		s, err := readWindowState(c.engine, coll.Ident)
		if err != nil {
			return err
		}
		if coll.relay != nil && s.ByID == "" {
			s.ByID = layout.NoneByID // after a repair, which stores no states
		}
		coll.live.setState(s)
		if s.Swept != s.Low {
			coll.live.dead.Store(coll.live.counter.Load(sumDocs) + 1) // how many is not known
		}
	}
	if coll.Open != 0 {
		coll.live.measurements, err = measurements.Open(c.engine, coll.Open, coll.Settings.Timeseries, c.staged)
		return err
	}
	if coll.Capped {
		return coll.live.readSequence(c.engine, coll.Ident)
	}
	return nil
}

// publish makes coll the descriptor that Lookup finds, and the newest of its
// collection. Its former name, if it had another, becomes free.
func (c *Catalog) publish(coll *Collection) {
	coll.applyRules()
	c.listed.Lock()
	defer c.listed.Unlock()
	old := coll.live.current.Load()
	coll.noteRelaid(old)
	if old != nil {
		coll.replaces(old)
		if old.Namespace != coll.Namespace {
			c.unlistLocked(old)
			c.uuids.CompareAndDelete(old.UUID, coll.live)
		}
	}
	c.listed.lives[coll.id] = coll.live
	if coll.Open != 0 {
		c.listed.lives[coll.Open] = coll.live
	}
	coll.live.changed.Store(c.changes.Add(1))
	coll.live.current.Store(coll)
	c.ttl.note(coll.live, expires(coll))
	c.names.Store(coll.Namespace, coll)
	// On a shard an entry of an earlier name may have the UUID too, until it is dropped: the one
	// that came last is found by it.
	if old == nil || old.Namespace != coll.Namespace {
		c.uuids.Store(coll.UUID, coll.live)
	} else {
		c.uuids.LoadOrStore(coll.UUID, coll.live)
	}
	if coll.forming() {
		c.listed.forming[coll.id] = coll
		return
	}
	db := c.listed.dbs[coll.Namespace.DB]
	if db == nil {
		db = map[string]*Collection{}
		c.listed.dbs[coll.Namespace.DB] = db
	}
	db[coll.Namespace.Coll] = coll
	coll.live.arrivals.Broadcast()
}

// replaces ends the indexes of the former descriptor that c does not have, and
// resets the use counts of those that were hidden or unhidden.
func (c *Collection) replaces(old *Collection) {
	for _, was := range old.indexes {
		i := slices.IndexFunc(c.indexes, func(ix *Index) bool { return ix.live == was.live })
		switch {
		case i < 0:
			was.live.drop()
		case c.indexes[i].Hidden != was.Hidden:
			was.live.resetUse()
		}
	}
}

// unpublish marks coll as dropped and frees its name.
func (c *Catalog) unpublish(coll *Collection) {
	coll.live.dropped.Store(true)
	if t := coll.live.measurements; t != nil {
		t.Forget()
	}
	for _, ix := range coll.indexes {
		ix.live.drop()
	}
	c.listed.Lock()
	defer c.listed.Unlock()
	c.unlistLocked(coll)
	c.ttl.note(coll.live, false)
	c.uuids.CompareAndDelete(coll.UUID, coll.live)
	delete(c.listed.lives, coll.id)
	delete(c.listed.lives, coll.Open)
	coll.live.arrivals.Broadcast()
}

// unlistLocked frees coll's name, if coll still has it.
func (c *Catalog) unlistLocked(coll *Collection) {
	if coll.forming() {
		c.names.Delete(coll.Namespace)
		delete(c.listed.forming, coll.id)
		return
	}
	db := c.listed.dbs[coll.Namespace.DB]
	if now := db[coll.Namespace.Coll]; now == nil || now.live != coll.live {
		return
	}
	c.names.Delete(coll.Namespace)
	delete(db, coll.Namespace.Coll)
	if len(db) == 0 {
		delete(c.listed.dbs, coll.Namespace.DB)
	}
}

// Close stops index builds, waits for them to end, and closes the committer if it is
// an io.Closer. The engine stays open.
func (c *Catalog) Close() error {
	c.builds.close()
	c.staged.Close()
	if k, ok := c.committer.(io.Closer); ok {
		return k.Close()
	}
	return nil
}

// Engine returns the store under the catalog.
func (c *Catalog) Engine() *storage.Engine { return c.engine }

// Lookup finds a collection or view, or returns nil.
func (c *Catalog) Lookup(ns schema.Namespace) *Collection {
	if v, ok := c.names.Load(ns); ok {
		return v.(*Collection)
	}
	return nil
}

// LookupUUID finds a collection by UUID, or returns nil.
func (c *Catalog) LookupUUID(id UUID) *Collection {
	if v, ok := c.uuids.Load(id); ok {
		return v.(*live).current.Load()
	}
	return nil
}

// Databases returns the names of the databases that have a collection, sorted.
func (c *Catalog) Databases() []string {
	c.listed.RLock()
	defer c.listed.RUnlock()
	names := make([]string, 0, len(c.listed.dbs))
	for name := range c.listed.dbs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CheckCase refuses to create a database whose name differs from that of an existing one
// only in case. Errors: 13297.
func (c *Catalog) CheckCase(db string) error {
	c.listed.RLock()
	defer c.listed.RUnlock()
	if _, known := c.listed.dbs[db]; known {
		return nil
	}
	for other := range c.listed.dbs {
		if strings.EqualFold(other, db) {
			return mongoerr.New(mongoerr.Code(13297), "db already exists with different case already have: [%s] trying to create [%s]", other, db)
		}
	}
	return nil
}

// Collections returns the collections and views of a database, sorted by name.
func (c *Catalog) Collections(db string) []*Collection {
	c.listed.RLock()
	defer c.listed.RUnlock()
	all := make([]*Collection, 0, len(c.listed.dbs[db]))
	for _, coll := range c.listed.dbs[db] {
		all = append(all, coll)
	}
	slices.SortFunc(all, func(a, b *Collection) int { return strings.Compare(a.Namespace.Coll, b.Namespace.Coll) })
	return all
}
