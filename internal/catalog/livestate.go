package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/storage"
)

// LiveState describes, in lines of text, what the catalog keeps in memory about all
// collections that members share. Two members that have applied the same effects have
// the same lines. Numbers that writers took without committing may differ, so the
// lines only report whether they are above all stored ones.
//
// Lines that begin with "pace" are about when background work is due, of which a process
// that started later knows less. It is for the proof of replay, and for comparing two
// members. No writer may be active.
func (c *Catalog) LiveState() (lines []string, err error) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	all := slices.DeleteFunc(c.all(), (*Collection).own)
	slices.SortFunc(all, func(a, b *Collection) int { return cmp.Compare(a.id, b.id) })
	for _, coll := range all {
		if c.Lookup(coll.Namespace) != coll || c.LookupUUID(coll.UUID) != coll || coll.Latest() != coll || c.liveOf(coll.id) != coll.live {
			say("%s is not found as what it is", coll.Namespace)
		}
		say("%s %d: %s", coll.Namespace, coll.id, coll.encode())
		if err := coll.liveState(c, say); err != nil {
			return nil, err
		}
	}
	if err := c.sessionState(say); err != nil {
		return nil, err
	}
	c.listed.RLock()
	for _, id := range slices.Sorted(maps.Keys(c.listed.lives)) {
		if id < storage.FirstOwnIdent {
			say("keyspace %d is one of %s", id, c.listed.lives[id].current.Load().Namespace)
		}
	}
	c.listed.RUnlock()
	for _, t := range c.TTL() {
		if !t.Collection.own() && t.Index != nil {
			say("ttl %s by %s: %s", t.Collection.Namespace, t.Index.Name, t.Index.Spec)
		} else if !t.Collection.own() {
			say("ttl %s: %d", t.Collection.Namespace, t.Collection.Settings.ExpireAfterSeconds)
		}
	}
	for i := range c.stale.slots {
		if w := c.stale.slots[i].Load(); w != nil {
			say("pace: %d is marked in window %x", w.ident, w.window)
		}
	}
	u := c.engine.Begin()
	defer u.Abort()
	say("next ident %d", u.NewIdent(storage.CommonIdents))
	return lines, nil
}

// liveState describes the live state of one collection.
func (c *Collection) liveState(cat *Catalog, say func(string, ...any)) error {
	l := c.live
	for _, ix := range c.indexes {
		shown, durable := load(&ix.live.multikey.shown), load(&ix.live.multikey.durable)
		say("  index %s %d: multikey %v, stored %v, dropped %t", ix.Name, ix.Ident, shown, durable, ix.live.dropped.Load())
	}
	if l.counter == nil {
		return nil
	}
	l.numbering.mu.Lock()
	if n := l.numbering.applied; n > 0 {
		say("pace: %s has writes up to number %d", c.Namespace, n)
	}
	l.numbering.mu.Unlock()
	say("  %d documents of %d bytes", l.counter.Load(sumDocs), l.counter.Load(sumBytes))
	if c.sections != nil {
		say("  low water %v, swept %v, by _id %x", l.lowWater.Load(), l.swept.Load(), l.gone().ByID)
		say("pace: %d of %s are to be swept", l.dead.Load(), c.Namespace)
	}
	if c.Capped {
		var stored live
		if err := stored.readSequence(cat.engine, c.Ident); err != nil {
			return err
		}
		say("  numbers are above those stored: %t, %t", l.lastSeq.Load() >= stored.lastSeq.Load(), l.firstSeq.Load() <= max(stored.firstSeq.Load(), 1))
	}
	if err := c.hiddenState(cat, say); err != nil || l.measurements == nil {
		return err
	}
	return l.measurements.State(say)
}

// hiddenState describes the expiry watermarks, and whether they are right.
func (c *Collection) hiddenState(cat *Catalog, say func(string, ...any)) error {
	if c.watermark == nil {
		return nil
	}
	it, err := cat.engine.NewIter(c.Ident, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	before := c.watermark.before.Load()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		if due := Due(c.hiding, v); due < before {
			say("  %s is due at %d, and none is said to be before %d", bson.Doc(v).Lookup("_id"), due, before)
		}
	}
	return it.Err()
}

// sessionState describes what sessions have executed, and prepared.
func (c *Catalog) sessionState(say func(format string, args ...any)) error {
	c.prepared.Lock()
	for s, h := range c.prepared.known {
		say("prepared %x %x: %d for %s", s.ID, s.UID, h.txn, h.coordinator)
	}
	c.prepared.Unlock()
	return c.eachSession(func(s retryable.Session, number uint32, r *retryable.Record) error {
		say("session %x %x: %d, record %d: %v", s.ID, s.UID, r.Txn, number, r.Runs)
		return nil
	})
}
