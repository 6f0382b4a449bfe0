package catalog

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Rule is an expiry rule in force on a collection, with the index that has the
// documents in the order of their instants.
type Rule struct {
	*schema.Rule
	Index *Index
}

// Name is the rule as change streams name it: that of its index, or "container" for
// the rule by which a container of the Cosmos DB endpoint lets its items go.
func (r *Rule) Name() string {
	if r.Kind == schema.ByLastWrite {
		return "container"
	}
	return r.Index.Name
}

// Rules are the expiry rules in force: those of ready TTL indexes, and the
// collection's own. Indexes of special types make none. Callers must not change
// the slice.
func (c *Collection) Rules() []*Rule { return c.rules }

// Hiding are the rules that hide what is due (visibility: immediate), nil for
// none. Callers must not change the slice.
func (c *Collection) Hiding() []*Rule { return c.hiding }

// Archiving are the rules that write what they remove to an archive before, nil for none. Callers
// must not change the slice.
func (c *Collection) Archiving() []*Rule { return c.archiving }

// applyRules sets the rules that follow from options and indexes.
func (c *Collection) applyRules() {
	c.rules, c.hiding, c.archiving, c.stamps, c.watermark = nil, nil, nil, false, nil
	if c.IsTimeseries() {
		return // its buckets expire, not its documents
	}
	for _, ix := range c.indexes {
		var r *schema.Rule
		if ix.Clusters() {
			r = schema.CollectionRule(c.Settings, ix.Index)
		} else {
			r = schema.IndexRule(ix.Index, &c.Settings.Expiry)
		}
		if r == nil {
			continue
		}
		c.stamps = c.stamps || r.Kind == schema.ByLastWrite
		if !ix.Ready {
			continue
		}
		c.rules = append(c.rules, &Rule{r, ix})
		if r.Settings.Archive != nil {
			c.archiving = append(c.archiving, c.rules[len(c.rules)-1])
		}
		if r.Settings.Visibility == schema.Immediate && !r.Settings.Paused {
			c.hiding = append(c.hiding, c.rules[len(c.rules)-1])
		}
	}
	if c.hiding != nil {
		c.watermark = newExpiryWatermark()
	}
}

// Due returns when a document is due by some rules: the earliest instant, or
// schema.Never.
func Due(rules []*Rule, doc bson.Doc) int64 {
	due := int64(schema.Never)
	for _, r := range rules {
		due = min(due, r.Due(doc))
	}
	return due
}

// Hides reports whether a document of the collection has expired and must no longer be
// visible.
func (c *Catalog) Hides(coll *Collection, doc bson.Doc) bool {
	return coll.hiding != nil && Due(coll.hiding, doc) <= c.Clock.ExpiryTime() || coll.sharding.Hides(doc)
}

// Stamps reports whether the server writes the time of the last write into each document,
// because a rule counts from it.
func (c *Collection) Stamps() bool { return c.stamps }

// SetTime sets the time of the unit's writes, in seconds since 1970. Without
// it, the catalog's clock is read when the time is first needed.
func (u *Unit) SetTime(second int64) { u.second = second }

// Stamp returns a document with the time of the unit's writes, where the
// collection has a rule that counts from the last write. Insert and Update do
// that themselves; Stamp is for callers that need to know what they will store. A document
// that comes from another shard is not written: it keeps its time.
func (u *Unit) Stamp(c *Collection, doc bson.Doc) bson.Doc {
	if !c.stamps || u.Moving || u.Guard != nil && u.Guard.Keeps || u.redoes != nil {
		return doc
	}
	if u.second == 0 {
		u.second = u.c.Clock.Stamped()
	}
	return schema.Stamped(doc, u.second)
}

// makeRoom removes the document of a record that has expired and is hidden, for
// another one that needs its keys; it returns false if the document has not, or is in a hidden
// range of a shard, and stays.
func (u *Unit) makeRoom(ctx context.Context, c *Collection, record RecordKey) (bool, error) {
	if c.hiding == nil {
		return false, nil
	}
	if _, err := u.u.Lock(ctx, storage.LockRecord, c.Ident, c.lockName(record)); err != nil {
		return false, err
	}
	if err := u.await(ctx, c, c.lockName(record)); err != nil {
		return false, err
	}
	v, closer, err := u.u.Get(c.Ident, record)
	if errors.Is(err, storage.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer closer.Close()
	// What is in a range that is being received, or was given away, does not expire here.
	// What a rule archives is gone only when it is archived.
	if c.sharding.Hides(v) || Due(c.hiding, v) > u.c.Clock.ExpiryTime() || Due(c.archiving, v) <= u.c.Clock.ExpiryTime() {
		return false, nil
	}
	if u.redoes != nil {
		u.redoes.evicts(c, v)
	}
	// The scratch has the plan of the write that needs the keys.
	held := u.scratch
	u.scratch = scratches.Get().(*scratch)
	u.Expires = earliest(c.hiding, v)
	err = u.remove(c, record, v)
	u.Expires = nil
	scratches.Put(u.scratch)
	u.scratch = held
	if err == nil {
		u.e.evicted++
	}
	return err == nil, err
}

// earliest returns the rule by which a document is due first.
func earliest(rules []*Rule, doc bson.Doc) (first *Rule) {
	for _, r := range rules {
		if first == nil || r.Due(doc) < first.Due(doc) {
			first = r
		}
	}
	return first
}

// Evicted counts the expired documents that were removed since the start because a
// write needed their keys, without those that the monitor removed.
func (c *Catalog) Evicted() int64 { return c.evicted.Load() }
