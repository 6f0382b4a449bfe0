package catalog

import (
	"bytes"
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
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
	noteOpen
	noteNumbered
	noteDatabase
	noteKinds
)

// errUnbound says that an effect is about what this member does not have.
func errUnbound(a *about, what string) error {
	return fmt.Errorf("%w: an effect is about %s of collection %d, which is not there", storage.ErrCorruption, what, a.id)
}

// dueNote says that no document which the unit writes is due before an instant;
// see expiryWatermark.
type dueNote struct {
	about
	due int64
}

func (n *dueNote) kind() noteKind       { return noteDue }
func (n *dueNote) apply(*Catalog) error { return nil }

// show lowers the watermark before the documents can be seen.
func (n *dueNote) show() {
	if n.l != nil {
		n.l.current.Load().lowerWatermark(n.due)
	}
}

// hintNote is where a document is from now on; see windowHints.
type hintNote struct{ hash, window uint64 }

// descriptorNote says that a collection has a descriptor, the first one or another.
type descriptorNote struct {
	about
	coll *Collection // nil in a note that was decoded: the batch has it
	ttl  bool        // the list of TTL is another one
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

// readDescriptor reads a descriptor as it is stored, with the live parts that its
// collection has.
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
		// An index that becomes one with entries keeps what it has learned.
		if old := l.current.Load().Index(ix.Name); old != nil && (old.Ident == ix.Ident || ix.IsID()) {
			ix.live = old.live
		}
	}
	return coll, nil
}

// droppedNote says that a collection is gone.
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

// databaseNote says that a database was dropped: what this member has in it for
// itself goes, too.
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

// isDDL says whether a note is of a change that one does at a time.
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

// show has plans know before the documents can be seen (invariant multikey-first).
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

// windowsNote says that the state of a collection's windows is another one, which
// the batch has.
type windowsNote struct {
	about
	dead int64 // by how much the documents rise whose entries are still there
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

func (n *staleNote) apply(c *Catalog) error {
	c.stale.add(windowRef{n.id, n.window})
	return nil
}

// forgottenNote says that the sums of windows went, and their marks with them.
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
	first, last int64 // first is 0 where it stays
}

func (n *cappedNote) kind() noteKind { return noteCapped }

func (n *cappedNote) apply(*Catalog) error {
	if n.l == nil {
		return errUnbound(&n.about, "records in their order")
	}
	raise(&n.l.lastSeq, n.last)
	raise(&n.l.firstSeq, n.first)
	n.l.arrivals.broadcast()
	return nil
}

// stagedNote says that the measurements of a record are staged.
type stagedNote struct {
	about
	number uint64 // of the record
	// Where the note was not decoded: the measurements, and the keys of their
	// sources one behind the other, which end there.
	ms   []timeseries.Measurement
	keys []byte
	ends []int
}

func (n *stagedNote) kind() noteKind { return noteStaged }

func (n *stagedNote) apply(c *Catalog) error {
	if n.l == nil || n.l.open == nil {
		return errUnbound(&n.about, "measurements")
	}
	coll, t := n.l.current.Load(), n.l.open
	if n.ms == nil {
		if err := n.read(c, coll); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	from := 0
	for i, m := range n.ms {
		t.stageLocked(coll, n.keys[from:n.ends[i]], m, false)
		from = n.ends[i]
	}
	t.seq = max(t.seq, n.number)
	t.stats.Commits++
	t.stats.Measurements += int64(len(n.ms))
	return nil
}

// read takes the measurements from their record.
func (n *stagedNote) read(c *Catalog, coll *Collection) error {
	v, closer, err := c.engine.Get(coll.Open, stagedKey(nil, n.number))
	if err != nil {
		return err
	}
	defer closer.Close()
	o := coll.Settings.Timeseries
	return eachStored(bytes.Clone(v), o.TimeField, func(d bson.Doc, at int64) error {
		m := timeseries.Measurement{Doc: d, Meta: metaOf(d, o), Time: at}
		n.ms = append(n.ms, m)
		n.keys = appendSourceKey(n.keys, m.Meta)
		n.ends = append(n.ends, len(n.keys))
		return nil
	})
}

// frozenNote says that what is staged is frozen: all that is in records with
// numbers below the cut.
type frozenNote struct {
	about
	cut uint64
}

func (n *frozenNote) kind() noteKind { return noteFrozen }

func (n *frozenNote) apply(*Catalog) error {
	if n.l == nil || n.l.open == nil {
		return errUnbound(&n.about, "measurements")
	}
	n.l.open.freeze(n.cut)
	return nil
}

// flushedNote says that a part of what is frozen was flushed: the batch says how far.
type flushedNote struct {
	about
	seq uint64 // the greatest number of a record so far
}

func (n *flushedNote) kind() noteKind { return noteFlushed }

func (n *flushedNote) apply(c *Catalog) error {
	if n.l == nil || n.l.open == nil {
		return errUnbound(&n.about, "measurements")
	}
	p, err := progressIn(c.engine, n.l.current.Load().Open)
	if err != nil {
		return err
	}
	n.l.open.thaw(&p, n.seq)
	return nil
}

// reopenedNote says that measurements are open again, of sources of theirs.
type reopenedNote struct {
	about
	groups []reopened
	seq    uint64
}

// reopened is what a reopenedNote says of a source.
type reopened struct {
	key         []byte
	meta        bson.Value
	n, size     int
	first, last int64
}

func (n *reopenedNote) kind() noteKind { return noteReopened }

// show counts them in before they can be seen, so that no reader misses one.
func (n *reopenedNote) show() {
	if n.l != nil && n.l.open != nil {
		n.l.open.reopened(n.l.current.Load(), n.groups, n.seq)
	}
}

func (n *reopenedNote) apply(*Catalog) error {
	if n.l == nil || n.l.open == nil {
		return errUnbound(&n.about, "measurements")
	}
	return nil
}

// openNote says what is open of a source, beside what is staged.
type openNote struct {
	about
	key         []byte
	n, size     int
	first, last int64
	seq         uint64
	buckets     int // that were sealed
}

func (n *openNote) kind() noteKind { return noteOpen }

func (n *openNote) apply(*Catalog) error {
	if n.l == nil || n.l.open == nil {
		return errUnbound(&n.about, "measurements")
	}
	t := n.l.open
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq = max(t.seq, n.seq)
	t.stats.Sealed += int64(n.buckets)
	s := t.sources[string(n.key)]
	if s == nil {
		return errUnbound(&n.about, "a source")
	}
	t.setOpenLocked(s, n.n, n.size, n.first, n.last)
	return nil
}
