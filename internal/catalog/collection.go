package catalog

import (
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// UUID identifies a collection for its life, across renames.
type UUID = bson.UUID

// ownNamespace reports whether a collection of that name belongs to this member
// alone.
func ownNamespace(ns schema.Namespace) bool { return ns.DB == "local" || ns.Coll == "system.profile" }

// identRange returns the range of idents for a namespace.
func identRange(ns schema.Namespace) storage.IdentRange {
	if ownNamespace(ns) {
		return storage.OwnIdents
	}
	return storage.CommonIdents
}

// own reports whether the collection belongs to this member alone: no other member
// has its content.
func (c *Collection) own() bool { return c.id >= storage.FirstOwnIdent }

// identRange returns the range of the collection's idents.
func (c *Collection) identRange() storage.IdentRange {
	if c.own() {
		return storage.OwnIdents
	}
	return storage.CommonIdents
}

// Collection is one state of a collection, view or time-series collection:
// immutable, and shared. Counts and the like are live state.
type Collection struct {
	Namespace schema.Namespace
	UUID      UUID
	// Options is what `create` was given, normalised: what listCollections shows.
	// Settings is the same, parsed.
	Options  bson.Doc
	Settings *schema.Options
	// Ident is the keyspace of the records; 0 for views. The records of a
	// time-series collection are its buckets.
	Ident storage.Ident
	// Open is the keyspace of the measurements of a time-series collection that
	// are in no bucket yet; else 0.
	Open storage.Ident
	// Capped says that records are in insertion order, within MaxBytes and, where
	// it is not 0, MaxDocs.
	Capped   bool
	MaxBytes int64
	MaxDocs  int64

	id      storage.Ident // the descriptor's, in the catalog's keyspace
	indexes []*Index      // in the order of creation, _id_ first
	live    *live
	derived *derived
	virtual Virtual // nil if there are records

	rules, hiding []*Rule          // see Rules and Hiding
	archiving     []*Rule          // see Archiving
	watermark     *expiryWatermark // nil if no rule hides
	stamps        bool             // a rule counts from the last write

	layout   layout.Layout   // how documents are laid out; nil for views
	sections layout.Sections // those of the layout, nil for none
	relay    *layout.Relay   // the layout during a relayout, else nil

	sharding *schema.Sharding // nil if it is not sharded
}

// RecordKey is the key of a document in its collection's keyspace. Opaque.
type RecordKey = layout.Key

// LowWater is the mark below which the sections of a collection have been
// removed.
type LowWater = layout.LowWater

// Gone are the ranges of a collection's records that have been removed: index entries
// with those record keys are dead.
type Gone = layout.Gone

// setLayout sets the layout of a collection.
func (c *Collection) setLayout(l layout.Layout) {
	c.layout, c.sections = l, l.Sections()
	c.relay, _ = l.(*layout.Relay)
}

// IsView reports whether the namespace is a view.
func (c *Collection) IsView() bool { return c.Settings.ViewOn != "" }

// ClusteredByID reports whether the record key is the key string of _id, so that
// _id_ is the records themselves: a lookup by _id is
// Get(c.Ident, c.AppendIDKey(nil, id)).
func (c *Collection) ClusteredByID() bool {
	return c.Ident != 0 && c.layout.FoundByID() == layout.ByRecord
}

// AppendIDKey appends the record key of the document with that _id.
// REQUIRES: ClusteredByID.
func (c *Collection) AppendIDKey(dst RecordKey, id bson.Value) RecordKey {
	invariant.Check(c.ClusteredByID(), "catalog: AppendIDKey is of a collection that is ClusteredByID")
	return c.appendID(dst, id)
}

// appendID appends the key string of an _id.
func (c *Collection) appendID(dst []byte, id bson.Value) []byte {
	return keystring.Append(dst, id, false, c.collator())
}

// collator returns the collator by which the collection orders _id.
func (c *Collection) collator() bson.Collator {
	if c.Settings.Collation == nil {
		return nil
	}
	return c.Settings.Collation.Collator
}

// Indexes returns the indexes, those being built among them, in the order of
// their creation. Callers must not change the slice.
func (c *Collection) Indexes() []*Index { return c.indexes }

// Index finds an index by name, or returns nil.
func (c *Collection) Index(name string) *Index {
	for _, ix := range c.indexes {
		if ix.Name == name {
			return ix
		}
	}
	return nil
}

// schemaIndexes returns the descriptors of the indexes.
func (c *Collection) schemaIndexes() []*schema.Index {
	all := make([]*schema.Index, len(c.indexes))
	for i, ix := range c.indexes {
		all[i] = ix.Index
	}
	return all
}

// The sums of a collection's counter.
const (
	sumDocs = iota
	sumBytes
)

// Count returns the number of committed documents; for a time-series collection, of
// its measurements, and for a virtual one, of the entries it is made from.
func (c *Collection) Count() int64 {
	switch {
	case c.virtual != nil:
		entries, _, _ := c.virtual.Size()
		return entries
	case c.live.counter == nil:
		return 0
	case c.IsTimeseries():
		return c.live.measurements.Count()
	}
	return c.live.counter.Load(sumDocs)
}

// DataSize returns the bytes of the committed documents; for a time-series
// collection, of its buckets and of the measurements in none.
func (c *Collection) DataSize() int64 {
	switch {
	case c.virtual != nil:
		_, bytes, _ := c.virtual.Size()
		return bytes
	case c.live.counter == nil:
		return 0
	case c.IsTimeseries():
		return c.live.counter.Load(sumBytes) + c.live.measurements.Bytes()
	}
	return c.live.counter.Load(sumBytes)
}

// Latest returns the newest descriptor of the same collection, which may have
// another name, or nil if it was dropped.
func (c *Collection) Latest() *Collection {
	if c.live.dropped.Load() {
		return nil
	}
	return c.live.current.Load()
}

// Learned is where the executor keeps what it has learned about the collection, such as
// cached plans. It lives as long as the collection, across renames.
func (c *Collection) Learned() *atomic.Value { return &c.live.learned }

// Check returns nil while the descriptor's collection exists under its name,
// else error 175, QueryPlanKilled, as a cursor reports it.
func (c *Collection) Check() error {
	if c.live.current.Load() == c && !c.live.dropped.Load() {
		return nil
	}
	return c.changed()
}

// changed is Check for the case that another collection has the name, or none.
func (c *Collection) changed() error {
	now := c.Latest()
	if now == c {
		return nil
	}
	if now == nil {
		return mongoerr.New(mongoerr.QueryPlanKilled, "collection dropped. UUID %s", c.UUID)
	}
	if now.Namespace != c.Namespace && !now.forming() && !(c.HoldsBuckets() && now.Namespace.Buckets() == c.Namespace) {
		return mongoerr.New(mongoerr.QueryPlanKilled, "collection renamed from '%s' to '%s'. UUID %s", c.Namespace, now.Namespace, c.UUID)
	}
	return nil
}

// with returns a copy to which f is applied.
func (c *Collection) with(f func(*Collection)) *Collection {
	n := *c
	n.derived = &derived{}
	f(&n)
	return &n
}
