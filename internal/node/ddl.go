package node

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// registerSchema adds the commands that define collections, indexes and
// databases, and those that describe them.
func (n *Node) registerSchema(r *command.Registry) {
	r.Register(
		n.create(), n.drop(), n.dropDatabase(), n.renameCollection(), n.collMod(),
		n.listDatabases(), n.listCollections(), n.listIndexes(),
		n.createIndexes(), n.dropIndexes(), n.reIndex(),
		n.convertToCapped(), n.cloneCollectionAsCapped(), n.compact(), n.archiveForget(), n.validate(), n.validateDBMetadata(),
		n.dbStats(), n.collStats(), n.dataSize(), n.fileMD5(),
	)
}

// ddlFlags are the flags of commands that define something.
const ddlFlags = command.Writes | command.TakesWriteConcern

// namespace is what a command names.
func namespace(op *command.Op) schema.Namespace {
	return schema.Namespace{DB: op.DB, Coll: op.Collection}
}

// existing resolves the collection that a command names, which must exist and not be a
// view; the buckets of a time-series collection resolve to it. Errors: 26 with the message
// missing, 166.
func (n *Node) existing(op *command.Op, missing string) (*catalog.Collection, error) {
	c, err := n.collection(op)
	if err != nil {
		return nil, err
	}
	if c == nil {
		c = n.bucketsOf(namespace(op))
	}
	if c == nil {
		return nil, mongoerr.New(mongoerr.NamespaceNotFound, "%s", missing)
	}
	return c, nil
}

// checkUUID compares the collection with the UUID that the client expects it to
// have: error 361, which names the collection that has the UUID.
func (n *Node) checkUUID(db, name string, c *catalog.Collection, expected bson.Value) error {
	if expected.IsMissing() {
		return nil
	}
	_, content := expected.Binary()
	id := catalog.UUID(content)
	if c != nil && c.UUID == id {
		return nil
	}
	var b bson.Builder
	b.String("db", db).Value("collectionUUID", expected).String("expectedCollection", name)
	if actual := n.Catalog.LookupUUID(id); actual != nil && actual.Namespace.DB == db {
		b.String("actualCollection", actual.Namespace.Coll)
	} else {
		b.Null("actualCollection")
	}
	return mongoerr.New(mongoerr.CollectionUUIDMismatch, "Collection UUID does not match that specified").WithExtra(b.Finish())
}

// checkExpected is checkUUID for a command whose argument collectionUUID says
// what the client expects.
func (n *Node) checkExpected(op *command.Op) error {
	expected := op.Args.Value("collectionUUID")
	if expected.IsMissing() {
		return nil
	}
	return n.checkUUID(op.DB, op.Collection, n.Catalog.Lookup(namespace(op)), expected)
}

// invalidate ends the cursors that hold the state of a collection which was
// dropped or renamed, and forgets its usage.
func (n *Node) invalidate(c *catalog.Collection) {
	if err := c.Check(); err != nil {
		n.Dispatcher.Cursors.Invalidate(c.UUID.String(), err)
		n.Dispatcher.Top.Forget(c.Namespace.String())
	}
}

// countedIndexes returns how many indexes replies count: the key of a clustered
// collection does not count.
func countedIndexes(c *catalog.Collection) int {
	n := len(c.Indexes())
	if c.Settings.Clustered != nil {
		n--
	}
	return n
}
