package catalog

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Virtual is what a collection has that has no records of its own: on a member of a
// replica set local.oplog.rs, whose documents are made of the log. It is capped, has no
// index, and nobody writes to it.
type Virtual interface {
	// Walk walks the documents as they are now whose time, a BSON timestamp's eight bytes
	// with the highest first, is from lower on and below upper; nil for no bound. The
	// times are the keys, and rise.
	Walk(lower, upper []byte) (*storage.Iter, error)
	// Gone says whether there was a document of that time or an earlier one that is not
	// there any more.
	Gone(key []byte) bool
	// Size is how many entries there are, their bytes, and how many bytes they may have.
	Size() (entries, bytes, most int64)
	// Arrivals are the collection's; see Collection.Arrivals.
	Arrivals() <-chan struct{}
}

// oplogIdent is the ident of the oplog, which is the last of a member's own: no
// keyspace has it.
const oplogIdent = storage.Ident(1<<63 - 1)

// ShowOplog makes the oplog a collection that Lookup finds, where there is one, and
// later shows how many bytes it may have.
func (c *Catalog) ShowOplog() error {
	if c.oplog == nil {
		return nil
	}
	_, _, most := c.oplog.Size()
	coll := &Collection{
		Namespace: schema.Oplog, UUID: bson.NewUUID(), id: oplogIdent, live: &live{id: oplogIdent}, derived: &derived{}, virtual: c.oplog,
		Options: new(bson.Builder).Bool("capped", true).Int64("size", max(most, 1)).Bool("autoIndexId", false).Finish(),
	}
	if shown := c.Lookup(schema.Oplog); shown != nil && shown.virtual != nil {
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

// TimeField is the field of a virtual collection's documents that is their key.
const TimeField = "ts"
