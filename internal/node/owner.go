package node

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// A shard checks statements against what it owns: it compares the router's version of a
// collection with the collection's entry before a statement (admit), when a read has its
// snapshot (heldBy, and heldForeign for what a pipeline reads besides; invariant held), and when a unit enters the collection (guard,
// invariant fenced). (docs/rfcs/0023-cluster.md)

var (
	identityNamespace  = schema.Namespace{DB: "admin", Coll: "system.version"}
	databasesNamespace = schema.Namespace{DB: "config", Coll: "cache.databases"}
)

// ShardIdentity is the _id of the document in admin.system.version with the names of the
// shard and its cluster.
const ShardIdentity = "shardIdentity"

// BecomeShard makes the node check statements against what the shard owns.
func (n *Node) BecomeShard() {
	n.shard = true
	n.Dispatcher.Admit = n.admit
}

// Stored returns the document with an _id, a string, in the newest state; nil for none.
func (n *Node) Stored(ns schema.Namespace, id string) (bson.Doc, error) {
	c := n.Catalog.Lookup(ns)
	if c == nil {
		return nil, nil
	}
	_, doc, closer, err := c.FindID(nil, n.Catalog.Engine(), bson.String(id))
	if err != nil || doc == nil {
		return nil, err
	}
	return doc.Clone(), closer.Close()
}

// ShardName returns the name of this shard, "" while it is in no cluster.
func (n *Node) ShardName() string {
	doc, err := n.Stored(identityNamespace, ShardIdentity)
	if err != nil || doc == nil {
		return ""
	}
	if v := doc.Lookup("shardName"); v.Type == bson.TypeString {
		return v.Str()
	}
	return ""
}

// admit waits until a statement may run here: for the end of a critical section, or until a
// secondary has applied what the primary knows. The wait is bounded. Errors: 13, 169,
// 249, 319, 13388, and the cause of ctx's end.
func (n *Node) admit(ctx context.Context, op *command.Op) error {
	writes := op.Command.Flags&command.Writes != 0
	if op.Command.Flags&command.ChecksDatabase != 0 {
		return n.admitToDatabase(op, writes)
	}
	ns := namespace(op)
	if ns.Coll == "" && op.Command.Name == "aggregate" { // its handler reads the name
		if _, v := op.Body.First(); v.Type == bson.TypeString {
			ns.Coll = v.Str()
		}
	}
	if op.HasUUID || ns.Coll == "" {
		return nil
	}
	var timeout <-chan time.Time
	for {
		c := n.Catalog.Lookup(ns)
		var next <-chan struct{}
		if c != nil {
			next = c.Arrivals()
			if c != n.Catalog.Lookup(ns) {
				continue
			}
		}
		err, wait := n.checkOwner(op.Generic.Versions, ns, c, writes, op.Client != nil && op.Client.Internal)
		if !wait {
			return err
		}
		if timeout == nil {
			timer := time.NewTimer(catalog.BlockedWait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout:
			return err
		case <-op.Wanted():
			return err
		}
	}
}

// checkOwner checks whether a statement with versions may run on a collection, nil for
// none, in its current state. wait says that waiting may help; the error is then for
// callers that have waited long enough.
func (n *Node) checkOwner(v *command.Versions, ns schema.Namespace, c *catalog.Collection, writes, internal bool) (err error, wait bool) {
	var s *schema.Sharding
	if c != nil {
		s = c.Sharding()
	}
	if v == nil {
		switch {
		case s == nil && writes && !internal:
			return n.checkBlocked(ns.DB), false
		case s == nil:
			return nil, false
		case writes && !internal:
			return mongoerr.New(mongoerr.Unauthorized, "You are connecting to a sharded cluster improperly by connecting directly to a shard. "+
				"Please connect to the cluster via a router (mongos)."), false
		case s.Blocked != nil && s.Blocked.Reads:
			return schema.StaleConfig(ns.String(), s.Shard, "a range is being moved: version not known", schema.UnshardedVersion, nil), true
		}
		return nil, false
	}
	if c != nil && c.IsView() && !writes { // a view refuses writes itself
		return n.shardedView(ns), false
	}
	if s != nil && s.Blocked != nil && (writes || s.Blocked.Reads) {
		return schema.StaleConfig(ns.String(), s.Shard, "a range is being moved: version not known", v.Shard, nil), true
	}
	wanted, name := schema.UnshardedVersion, ""
	if s != nil {
		wanted, name = s.Version, s.Shard
	} else if v.Shard.IsSet() && v.Shard != schema.IgnoredVersion {
		name = n.ShardName()
	}
	if err := schema.CheckShardVersion(ns.String(), name, v.Shard, wanted); err != nil {
		return err, c != nil && n.isSecondary() && behind(wanted, v.Shard)
	}
	if s == nil && v.Database != nil {
		return n.checkDatabase(ns.DB, v.Database, writes), false
	}
	return nil, false
}

// behind reports whether a version is older than another.
func behind(v, w schema.ShardVersion) bool {
	if c, comparable := v.Order(w); comparable {
		return c < 0
	}
	return v.Timestamp < w.Timestamp
}

func (n *Node) isSecondary() bool {
	m := n.Dispatcher.Member
	return m != nil && m.Writable() != nil
}

// checkDatabase compares the router's version of a database with the shard's. Errors: 249,
// and 319 for a write while the database moves.
func (n *Node) checkDatabase(db string, received bson.Doc, writes bool) error {
	doc, err := n.Stored(databasesNamespace, db)
	if err != nil {
		return err
	}
	wanted := doc.Lookup("version")
	if doc == nil || !doc.Lookup("primary").Truthy() || wanted.Type != bson.TypeDocument || bson.CompareDocs(wanted.Doc(), received, nil) != 0 {
		b := new(bson.Builder).String("db", db).Doc("vReceived", received)
		if doc != nil && wanted.Type == bson.TypeDocument {
			b.Doc("vWanted", wanted.Doc())
		}
		return mongoerr.New(mongoerr.StaleDbVersion, "version mismatch for the database %s", db).WithExtra(b.Finish())
	}
	if writes && doc.Lookup("blocked").Truthy() {
		return movePrimaryInProgress(db)
	}
	return nil
}

// admitToDatabase holds a command that defines or lists something to the version of the
// database that came with it, and one that defines without a version to whether the database
// moves. What is sharded does not lie with its database; where it is not here, a version that
// says that it is one is stale. Errors: 249, 319, 13388.
func (n *Node) admitToDatabase(op *command.Op, writes bool) error {
	v, ns := op.Generic.Versions, namespace(op)
	if c := n.Catalog.Lookup(ns); c != nil && c.Sharding() != nil {
		return nil
	}
	if v != nil && v.Shard.IsSet() {
		if err := schema.CheckShardVersion(ns.String(), n.ShardName(), v.Shard, schema.UnshardedVersion); err != nil {
			return err
		}
	}
	switch {
	case v != nil && v.Database != nil:
		return n.checkDatabase(op.DB, v.Database, writes)
	case writes && (op.Client == nil || !op.Client.Internal):
		return n.checkBlocked(op.DB)
	}
	return nil
}

// checkBlocked refuses what a client that talks to the shard itself would write into a
// database that moves. Error 319.
func (n *Node) checkBlocked(db string) error {
	if db == "admin" || db == "config" || db == "local" {
		return nil
	}
	doc, err := n.Stored(databasesNamespace, db)
	if err == nil && doc.Lookup("blocked").Truthy() {
		err = movePrimaryInProgress(db)
	}
	return err
}

func movePrimaryInProgress(db string) error {
	return mongoerr.New(mongoerr.MovePrimaryInProgress, "movePrimary is in progress for the database %s", db)
}

// shardedView returns error 169, which contains the definition of the view for the router.
func (n *Node) shardedView(ns schema.Namespace) error {
	on, list, collation, err := n.resolveView(ns, nil)
	if err != nil {
		return err
	}
	var b bson.Builder
	b.OpenDoc("resolvedView").String("ns", on.String()).OpenArray("pipeline")
	for i, stage := range list {
		b.Value(bson.Index(i), stage)
	}
	b.Close()
	if collation != nil {
		b.Doc("collation", collation)
	}
	b.Close()
	return mongoerr.New(mongoerr.CommandOnShardedViewNotSupportedOnMongod, "Resolved views on sharded collections must be executed by mongos").WithExtra(b.Finish())
}

// heldOf is heldBy where the statement has versions of the collection, and nil elsewhere.
func (n *Node) heldOf(op *command.Op, c *catalog.Collection, ns schema.Namespace) func() error {
	if !n.shard || op.Generic.Versions == nil || c.Namespace != ns {
		return nil
	}
	return n.heldBy(op, c)
}

// heldBy returns a check for a read of a collection that has its snapshot: the statement
// may see that snapshot if the entry has not changed since the descriptor was looked up,
// and the version matches.
func (n *Node) heldBy(op *command.Op, c *catalog.Collection) func() error {
	v, ns := op.Generic.Versions, c.Namespace
	return func() error {
		now := c.Latest()
		switch {
		case now == nil && v != nil && c.Sharding() != nil:
			return schema.StaleConfig(ns.String(), n.ShardName(), "the collection was dropped: version not known", v.Shard, nil)
		case now == nil:
			return nil // the cursor reports that it was dropped
		}
		if !now.Sharding().Shows(c.Sharding()) {
			return schema.StaleConfig(ns.String(), n.ShardName(), "a range was moved concurrently", v.Shard, nil)
		}
		err, _ := n.checkOwner(v, ns, now, false, false)
		return err
	}
}

// heldForeign returns a check for the read of another collection, ns, by a pipeline that a router
// has sent here whole, as that collection is not sharded and lies here, too. It has no version of
// its own: the read may see the state that it has if the collection is not sharded yet and its
// database is still this shard's. nil where the statement has no versions.
func (n *Node) heldForeign(op *command.Op, ns schema.Namespace) func() error {
	v := op.Generic.Versions
	if !n.shard || v == nil {
		return nil
	}
	return func() error {
		if c := n.Catalog.Lookup(ns); c != nil && c.Sharding() != nil {
			s := c.Sharding()
			return schema.StaleConfig(ns.String(), s.Shard, "the collection is sharded", schema.UnshardedVersion, &s.Version)
		}
		switch {
		case v.Database != nil:
			return n.checkDatabase(ns.DB, v.Database, false)
		case ns.DB == "admin" || ns.DB == "config" || ns.DB == "local":
			return nil
		}
		doc, err := n.Stored(databasesNamespace, ns.DB)
		if err == nil && !doc.Lookup("primary").Truthy() {
			err = schema.StaleConfig(ns.String(), n.ShardName(), "its database lies on another shard: version not known", schema.UnshardedVersion, nil)
		}
		return err
	}
}

// Guard is guard for commands of other packages.
func (n *Node) Guard(op *command.Op) *catalog.Guard { return n.guard(op) }

// Held is heldBy for commands of other packages.
func (n *Node) Held(op *command.Op, c *catalog.Collection) func() error { return n.heldBy(op, c) }

// guard returns the Guard for the units of op, nil if this is not a shard.
func (n *Node) guard(op *command.Op) *catalog.Guard {
	if !n.shard {
		return nil
	}
	g := &catalog.Guard{Retryable: op.Generic.HasTxnNumber, Wanted: op.Wanted}
	internal := op.Client != nil && op.Client.Internal
	if v := op.Generic.Versions; v != nil {
		g.Received, g.KeyMayBe = v.Shard, v.KeyMayBe
	}
	// What movePrimary copies (shardsvr/clonedatabase.go).
	g.Keeps = internal && op.Command != nil && op.Command.Name == "insert" && keepsZeroTimestamps(&op.Args)
	ns := namespace(op)
	g.Admit = func(c *catalog.Collection) error {
		v := op.Generic.Versions
		if c.Namespace != ns && c.Namespace != ns.Buckets() {
			v = nil
		}
		err, _ := n.checkOwner(v, c.Namespace, c, true, internal)
		return err
	}
	if op.InTransaction() {
		g.Again = n.again(internal, map[schema.Namespace]*command.Versions{ns: op.Generic.Versions})
	}
	return g
}

// again returns Guard.Again for a statement with versions.
func (n *Node) again(internal bool, versions map[schema.Namespace]*command.Versions) func(*catalog.Collection) error {
	databases := map[schema.Namespace]bson.Doc{}
	for ns, v := range versions {
		if v != nil && v.Database != nil {
			databases[ns] = v.Database.Clone()
		}
	}
	return func(c *catalog.Collection) error {
		switch received := databases[c.Namespace]; {
		case received != nil:
			return n.checkDatabase(c.Namespace.DB, received, true)
		case !internal:
			return n.checkBlocked(c.Namespace.DB)
		}
		return nil
	}
}

// guard returns the Guard for the units of a bulkWrite.
func (b *bulk) guard() *catalog.Guard {
	g := b.n.guard(b.op)
	if g == nil {
		return nil
	}
	internal := b.op.Client != nil && b.op.Client.Internal
	g.Admit = func(c *catalog.Collection) error {
		var v *command.Versions
		for _, s := range b.spaces {
			if ns := namespace(&s.Op); ns == c.Namespace || ns.Buckets() == c.Namespace {
				v = s.Generic.Versions
			}
		}
		err, _ := b.n.checkOwner(v, c.Namespace, c, true, internal)
		return err
	}
	if b.op.InTransaction() {
		versions := map[schema.Namespace]*command.Versions{}
		for _, s := range b.spaces {
			versions[namespace(&s.Op)] = s.Generic.Versions
		}
		g.Again = b.n.again(internal, versions)
	}
	return g
}
