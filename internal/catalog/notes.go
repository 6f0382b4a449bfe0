package catalog

import (
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// noteKind is a kind of note in an encoding. Numbers are never used again.
type noteKind uint8

// The kinds.
const (
	noteDue noteKind = iota + 1
	noteDescriptor
	noteDropped
	noteMultikey
	noteWindows
	noteStale
	noteForgotten
	noteCapped
	noteStaged
	noteFrozen
	noteFlushed
	noteReopened
	noteRest
	noteNumbered
	noteDatabase
	noteExecuted
	notePrepared
	noteDecided
	noteKinds
)

// errUnbound says that an effect refers to something that this member does not
// have.
func errUnbound(a *about, what string) error {
	return fmt.Errorf("%w: an effect refers to %s of collection %d, which does not exist", storage.ErrCorruption, what, a.id)
}

// dueNote says that no document which the unit writes is due before an instant;
// see expiryWatermark.
type dueNote struct {
	about
	due int64
}

func (n *dueNote) kind() noteKind       { return noteDue }
func (n *dueNote) joins() bool          { return true }
func (n *dueNote) apply(*Catalog) error { return nil }

// show lowers the watermark before the documents become visible.
func (n *dueNote) show() {
	if n.l != nil {
		n.l.current.Load().lowerWatermark(n.due)
	}
}

// hintNote says in which window a document is from now on; see windowHints.
type hintNote struct{ hash, window uint64 }

// descriptorNote says that a collection has a new descriptor, its first one or
// another.
type descriptorNote struct {
	about
	coll *Collection // nil in a note that was decoded: the batch has it
	ttl  bool        // the list of TTL has changed
}

func (n *descriptorNote) kind() noteKind { return noteDescriptor }
func (n *descriptorNote) alone() bool    { return true }

func (n *descriptorNote) apply(c *Catalog) (err error) {
	if n.coll == nil {
		if n.coll, err = c.readDescriptor(n.id); err != nil {
			return err
		}
	}
	n.ttl = expires(n.coll) || expires(n.coll.live.current.Load())
	c.publish(n.coll)
	return nil
}

// readDescriptor reads a stored descriptor, and attaches the live state of its
// collection.
func (c *Catalog) readDescriptor(id storage.Ident) (*Collection, error) {
	v, closer, err := c.engine.Get(storage.IdentCatalog, identKey(id))
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	coll, err := decode(id, bson.Doc(v).Clone())
	if err != nil {
		return nil, err
	}
	l := c.liveOf(id)
	if l == nil {
		return coll, c.openLive(coll)
	}
	coll.live = l
	for _, ix := range coll.indexes {
		// An index that gets entries, or loses them, keeps its live state.
		if old := l.current.Load().Index(ix.Name); old != nil && (old.Ident == ix.Ident || ix.IsID() || old.Records != ix.Records) {
			ix.live = old.live
		}
	}
	return coll, nil
}

// droppedNote says that a collection was dropped.
type droppedNote struct {
	about
	ttl bool
}

func (n *droppedNote) kind() noteKind { return noteDropped }
func (n *droppedNote) alone() bool    { return true }

func (n *droppedNote) apply(c *Catalog) error {
	if n.l == nil {
		return errUnbound(&n.about, "the descriptor")
	}
	coll := n.l.current.Load()
	n.ttl = expires(coll)
	c.unpublish(coll)
	return nil
}

// databaseNote says that a database was dropped: collections in it that belong
// to this member alone are removed, too.
type databaseNote struct {
	about
	db string
}

func (n *databaseNote) kind() noteKind           { return noteDatabase }
func (n *databaseNote) append(dst []byte) []byte { return append(dst, n.db...) }
func (n *databaseNote) apply(*Catalog) error     { return nil }

// changesTTL says of a note that was applied whether the list of TTL has changed.
func changesTTL(n note) bool {
	switch n := n.(type) {
	case *descriptorNote:
		return n.ttl
	case *droppedNote:
		return n.ttl
	}
	return false
}

// isDDL reports whether a note is of DDL, which runs one at a time.
func isDDL(n note) bool {
	return n.kind() == noteDescriptor || n.kind() == noteDropped
}

// multikeyNote says that documents of a unit have arrays on paths of an index.
type multikeyNote struct {
	about
	index storage.Ident
	paths schema.MultikeyPaths
	live  *indexLive // found when the note is bound
}

func (n *multikeyNote) kind() noteKind { return noteMultikey }
func (n *multikeyNote) joins() bool    { return true }

// show makes the paths visible to plans before the documents become visible
// (invariant multikey-first).
func (n *multikeyNote) show() {
	if n.live == nil && n.l != nil {
		for _, ix := range n.l.current.Load().indexes {
			if ix.Ident == n.index {
				n.live = ix.live
			}
		}
	}
	if n.live != nil {
		n.live.addMultikey(&n.live.multikey.shown, n.paths)
	}
}

func (n *multikeyNote) apply(*Catalog) error {
	if n.live == nil {
		return errUnbound(&n.about, "an index")
	}
	n.live.addMultikey(&n.live.multikey.durable, n.paths)
	return nil
}

// manyDropped is how many documents a unit drops as ranges at least for the engine to be
// told: of fewer there is little to flush and to compact.
const manyDropped = 1000

// windowsNote says that the state of a collection's windows has changed; the
// batch has the new one.
type windowsNote struct {
	about
	dead int64 // the increase in documents with dead entries
}

func (n *windowsNote) kind() noteKind { return noteWindows }
func (n *windowsNote) alone() bool    { return true }

func (n *windowsNote) apply(c *Catalog) error {
	if n.l == nil {
		return errUnbound(&n.about, "windows")
	}
	s, err := readWindowState(c.engine, n.id)
	if err != nil {
		return err
	}
	n.l.setState(s)
	if n.dead >= manyDropped {
		c.engine.RangesDropped()
	}
	if s.Swept == s.Low {
		n.l.dead.Store(0)
	} else {
		n.l.dead.Add(n.dead)
	}
	return nil
}

// staleNote says that the store marks a window as stale.
type staleNote struct {
	about
	window uint64
}

func (n *staleNote) kind() noteKind { return noteStale }
func (n *staleNote) joins() bool    { return true }

func (n *staleNote) apply(c *Catalog) error {
	c.stale.add(windowRef{n.id, n.window})
	return nil
}

// forgottenNote says that the sums of windows, and their marks, were removed.
type forgottenNote struct{ about }

func (n *forgottenNote) kind() noteKind { return noteForgotten }
func (n *forgottenNote) alone() bool    { return true }

func (n *forgottenNote) apply(c *Catalog) error {
	c.stale.forget(n.id)
	return nil
}

// cappedNote says between which numbers the records of a capped collection are,
// and that there are new ones.
type cappedNote struct {
	about
	first, last int64 // first is 0 if it does not change
}

func (n *cappedNote) kind() noteKind { return noteCapped }
func (n *cappedNote) joins() bool    { return true }

func (n *cappedNote) apply(*Catalog) error {
	if n.l == nil {
		return errUnbound(&n.about, "records in their order")
	}
	raise(&n.l.lastSeq, n.last)
	raise(&n.l.firstSeq, n.first)
	n.l.arrivals.Broadcast()
	return nil
}

// tableNote says that the table of a collection's open measurements has changed.
type tableNote struct {
	about
	change measurements.Change
}

// Kinds of notes follow kinds of changes.
var _ = [1]int{}[noteRest-noteStaged+1-noteKind(measurements.Kinds)]

func (n *tableNote) kind() noteKind           { return noteStaged + noteKind(n.change.Kind()) }
func (n *tableNote) append(dst []byte) []byte { return n.change.Append(dst) }

func (n *tableNote) show() {
	if n.l != nil && n.l.measurements != nil {
		n.change.Show(n.l.measurements, n.l.current.Load().Settings.Timeseries)
	}
}

func (n *tableNote) apply(*Catalog) error {
	if n.l == nil || n.l.measurements == nil {
		return errUnbound(&n.about, "measurements")
	}
	return n.change.Apply(n.l.measurements, n.l.current.Load().Settings.Timeseries)
}
