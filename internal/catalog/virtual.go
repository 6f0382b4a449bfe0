package catalog

import (
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Virtual is the content of a collection without records: on a member of a replica
// set local.oplog.rs, whose documents are made from the log, and
// config.transactions, whose documents are made from the sessions' records. It has
// no index, and cannot be written to.
type Virtual interface {
	// Walk iterates over the current documents with keys from lower up to, but not
	// including, upper; nil for no bound. They are in the order of their keys.
	Walk(lower, upper []byte) (*storage.Iter, error)
	// KeyField is the field that is the key, where that is a timestamp's eight bytes, the
	// highest first; "" for none.
	KeyField() string
	// Gone reports whether a document with that key or an earlier one existed and has
	// been removed. A walk that was opened before the call has all that is behind the key if
	// it is false. Errors: those of the disk.
	Gone(key []byte) (bool, error)
	// Size returns how many entries there are, their bytes, and how many bytes they may
	// have.
	Size() (entries, bytes, most int64)
	// Arrivals is that of the collection; see Collection.Arrivals.
	Arrivals() <-chan struct{}
}

// oplogIdent and transactionsIdent are the idents of the virtual collections, the last
// ones of a member's own range: no keyspace has them.
const (
	oplogIdent        = storage.Ident(1<<63 - 1)
	transactionsIdent = oplogIdent - 1
)

// ShowOplog makes Lookup find the oplog and config.transactions, if there is an
// oplog, and later updates how many bytes the oplog may have.
func (c *Catalog) ShowOplog() error {
	if c.oplog == nil {
		return nil
	}
	_, _, most := c.oplog.Size()
	options := new(bson.Builder).Bool("capped", true).Int64("size", max(most, 1)).Bool("autoIndexId", false).Finish()
	return errors.Join(c.show(schema.Oplog, oplogIdent, c.oplog, options), c.show(schema.Transactions, transactionsIdent, transactions{c}, bson.Empty))
}

// show makes Lookup find a virtual collection.
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

// Virtual returns the content of a virtual collection; nil for all others.
func (c *Collection) Virtual() Virtual { return c.virtual }
