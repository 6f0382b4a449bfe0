package catalog

import (
	"errors"
	"sync"
)

// Permit allows a removal in the background to continue, unit by unit. A nil Permit
// always does.
//
// Invariant brake: a unit that removes what is due, or moves documents in a relayout,
// checks its permit once it is inside the collection's gate, and holds Units until it has
// committed. A DDL closes the gate, and a change of a limit locks Units before it
// replies. So after either has replied, nothing more is removed, or moves, by the old rule
// or the old limits.
type Permit struct {
	// Units is read-held over each unit.
	Units *sync.RWMutex
	// InForce reports whether the conditions under which the removal began still hold
	// for the newest descriptor of its collection. It is called inside the gate.
	InForce func(latest *Collection) bool
}

// ErrNoPermit ends a removal whose rule or limits have changed.
var ErrNoPermit = errors.New("catalog: the rule or the limits of a removal have changed")

// Unit runs f, which is one unit that removes something.
func (p *Permit) Unit(f func() error) error {
	if p == nil {
		return f()
	}
	p.Units.RLock()
	defer p.Units.RUnlock()
	return f()
}

// Check returns nil or ErrNoPermit. REQUIRES: the caller is inside the gate.
func (p *Permit) Check(latest *Collection) error {
	if latest != nil {
		latest.live.gate.checkInside()
	}
	if p == nil || p.InForce(latest) {
		return nil
	}
	return ErrNoPermit
}
