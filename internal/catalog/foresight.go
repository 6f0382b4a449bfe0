package catalog

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// foresight is what is known of a collection whose rules hide what is due
// without looking at its documents: none is due before an instant. Writers take
// it down before their documents can be seen; Foresee raises it. Descriptors
// that differ have each its own.
type foresight struct {
	// before is the instant, the smallest number where nothing is known.
	before atomic.Int64
	raised atomic.Uint64 // how often; see Foreseen
}

// foreseen says how often the foresight of a collection was raised.
func (c *Collection) foreseen() uint64 {
	if c.foresight == nil {
		return 0
	}
	return c.foresight.raised.Load()
}

// Foreseen is a moment in which a collection was looked at.
type Foreseen struct {
	coll   *Collection // nil: nothing is known
	raised uint64
}

// Foreseen is taken before a state of the store, and says of that what Clear
// tells.
func (c *Collection) Foreseen() Foreseen {
	if now := c.Latest(); now != nil && now.hiding != nil {
		return Foreseen{now, now.foreseen()}
	}
	return Foreseen{}
}

// Clear says that no document is due by the rules of c that hide, at an instant,
// in the state of the store that was taken since. False says nothing.
func (f Foreseen) Clear(c *Collection, now int64) bool {
	// What was raised in between may speak of a later state.
	return c != nil && f.coll == c && c.foresight.before.Load() > now && c.foreseen() == f.raised
}

// foresee notes when a document is due that is about to be written.
// REQUIRES: the unit is inside the collection.
func (u *Unit) foresee(c *Collection, doc bson.Doc) {
	if c.foresight == nil {
		return
	}
	c.live.gate.checkInside()
	due := Due(c.hiding, doc)
	for i := range u.e.dues {
		if n := &u.e.dues[i]; n.l == c.live {
			n.due = min(n.due, due)
			return
		}
	}
	u.e.dues = append(u.e.dues, dueNote{of(c), due})
}

// foresee takes into account that a document comes which is due at an instant.
func (c *Collection) foresee(due int64) {
	if c.foresight == nil {
		return
	}
	for {
		before := c.foresight.before.Load()
		if due >= before || c.foresight.before.CompareAndSwap(before, due) {
			return
		}
	}
}

const (
	// foreseeTries is how often Foresee tries to find a moment without writers,
	// and foreseeWait the time between two tries.
	foreseeTries = 20
	foreseeWait  = 50 * time.Microsecond
)

// Foresee has the collection know how long no document is due by the rules that
// hide, so that readers need not look at each. first finds the earliest instant
// by a rule in the latest state. Where a writer is always inside, the collection
// goes without.
func (c *Catalog) Foresee(coll *Collection, first func(*Rule) (int64, error)) error {
	for range foreseeTries {
		coll = coll.Latest()
		if coll == nil || coll.foresight == nil || coll.foresight.before.Load() > c.Clock.Judged() {
			return nil
		}
		if coll.live.gate.TryLock() {
			defer coll.live.gate.Unlock()
			if coll.Latest() != coll {
				return nil
			}
			due := int64(schema.Never)
			for _, r := range coll.hiding {
				at, err := first(r)
				if err != nil {
					return err
				}
				due = min(due, at)
			}
			coll.foresight.raised.Add(1)
			coll.foresight.before.Store(due)
			return nil
		}
		time.Sleep(foreseeWait)
	}
	return nil
}

// newForesight knows nothing yet.
func newForesight() *foresight {
	f := &foresight{}
	f.before.Store(math.MinInt64)
	return f
}
