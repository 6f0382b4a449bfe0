package catalog

import (
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Virtual is what a collection has that has no records of its own: on a member of a
// replica set local.oplog.rs, whose documents are made of the log, and
// config.transactions, whose are made of the sessions' records. It has no index, and
// nobody writes to it.
type Virtual interface {
	// Walk walks the documents as they are now whose keys are from lower on and below
	// upper; nil for no bound. The keys rise.
	Walk(lower, upper []byte) (*storage.Iter, error)
	// KeyField is the field that is the key, where that is a timestamp's eight bytes, the
	// highest first; "" for none.
	KeyField() string
	// Gone says whether there was a document of that key or an earlier one that is not
	// there any more.
	Gone(key []byte) bool
	// Size is how many entries there are, their bytes, and how many bytes they may have.
	Size() (entries, bytes, most int64)
	// Arrivals are the collection's; see Collection.Arrivals.
	Arrivals() <-chan struct{}
}

// oplogIdent and transactionsIdent are the idents of what has no records, the last ones
// of a member's own: no keyspace has them.
const (
	oplogIdent        = storage.Ident(1<<63 - 1)
	transactionsIdent = oplogIdent - 1
)

// ShowOplog makes the oplog and config.transactions collections that Lookup finds, where
// there is an oplog, and later shows how many bytes that may have.
func (c *Catalog) ShowOplog() error {
	if c.oplog == nil {
		return nil
	}
	_, _, most := c.oplog.Size()
	options := new(bson.Builder).Bool("capped", true).Int64("size", max(most, 1)).Bool("autoIndexId", false).Finish()
	return errors.Join(c.show(schema.Oplog, oplogIdent, c.oplog, options), c.show(schema.Transactions, transactionsIdent, transactions{c}, bson.Empty))
}

// show makes something a collection that Lookup finds.
func (c *Catalog) show(ns schema.Namespace, id storage.Ident, v Virtual, options bson.Doc) error {
	coll := &Collection{Namespace: ns, UUID: bson.NewUUID(), id: id, live: &live{id: id}, derived: &derived{}, virtual: v, Options: options}
	if shown := c.Lookup(ns); shown != nil && shown.virtual != nil {
		coll.UUID, coll.live = shown.UUID, shown.live
	}
	if err := coll.applyOptions(); err != nil {
		return err
	}
	c.publish(coll)
	return nil
}

// Virtual is what the collection has in the place of records; nil for nearly all.
func (c *Collection) Virtual() Virtual { return c.virtual }
