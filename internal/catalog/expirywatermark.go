package catalog

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// expiryWatermark is an instant before which no document of a collection is due by
// the rules that hide what is due, so that readers need not check each document.
// Writers lower it before their documents become visible; RaiseWatermark raises it.
// Each descriptor has its own.
type expiryWatermark struct {
	// before is the instant, the smallest number where none is known.
	before atomic.Int64
	raised atomic.Uint64 // how often; see Watermark
}

// timesRaised is how often the expiry watermark was raised.
func (c *Collection) timesRaised() uint64 {
	if c.watermark == nil {
		return 0
	}
	return c.watermark.raised.Load()
}

// Watermark is the expiry watermark of a collection at the time before a reader
// took its state of the store.
type Watermark struct {
	coll   *Collection // nil: nothing is known
	raised uint64
}

// Watermark must be taken before a state of the store; NothingDue then holds for
// that state.
func (c *Collection) Watermark() Watermark {
	if now := c.Latest(); now != nil && now.hiding != nil {
		return Watermark{now, now.timesRaised()}
	}
	return Watermark{}
}

// NothingDue says that no document is due at an instant, by the rules of c that hide
// what is due, in the state of the store that was taken after the watermark. False
// means that it is not known.
func (w Watermark) NothingDue(c *Collection, now int64) bool {
	// What was raised in between may be about a later state.
	return c != nil && w.coll == c && c.watermark.before.Load() > now && c.timesRaised() == w.raised
}

// noteDue notes when a document that is about to be written comes due.
// REQUIRES: the unit is inside the collection.
func (u *Unit) noteDue(c *Collection, doc bson.Doc) {
	if c.watermark == nil {
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

// lowerWatermark takes into account that a document which is due at an instant is
// about to become visible.
func (c *Collection) lowerWatermark(due int64) {
	if c.watermark == nil {
		return
	}
	for {
		before := c.watermark.before.Load()
		if due >= before || c.watermark.before.CompareAndSwap(before, due) {
			return
		}
	}
}

const (
	// raiseTries is how often RaiseWatermark tries to find a moment without writers,
	// and raiseWait the time between two tries.
	raiseTries = 20
	raiseWait  = 50 * time.Microsecond
)

// RaiseWatermark raises the expiry watermark of a collection where its instant has
// passed. first finds the earliest instant by a rule in the latest state. While writers
// are always active, the watermark does not change. Errors: those of first.
func (c *Catalog) RaiseWatermark(coll *Collection, first func(*Rule) (int64, error)) error {
	for range raiseTries {
		coll = coll.Latest()
		if coll == nil || coll.watermark == nil || coll.watermark.before.Load() > c.Clock.ExpiryTime() {
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
			coll.watermark.raised.Add(1)
			coll.watermark.before.Store(due)
			return nil
		}
		time.Sleep(raiseWait)
	}
	return nil
}

// newExpiryWatermark returns one of which nothing is known yet.
func newExpiryWatermark() *expiryWatermark {
	f := &expiryWatermark{}
	f.before.Store(math.MinInt64)
	return f
}
