package catalog

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A filled collection changes its layout while it is in use, from the order of _id to
// windows of expiry or back: BeginRelay, a RelayPart after another, EndRelay
// (docs/rfcs/0019-layouts.md). Between the first and the last its layout is a
// layout.Relay, which serves as well as any other for as long as the relayout pauses.
// What stays in the half that documents leave does not change (invariant old-still).

const (
	// relayDocs is how many documents move in one unit while clients are active,
	// and relayDocsAlone while none is: a larger unit costs less for each document
	// (BenchmarkRelay: a third), and locks them for longer. relayUnitBytes is the size of
	// the documents after which none is added to a unit.
	relayDocs, relayDocsAlone = 100, 4000
	relayUnitBytes            = 2 << 20
	// maxDueLeft bounds the documents of a part noted as due and removed by others;
	// where there are more, the part is read again.
	maxDueLeft = 100_000
)

// relayRun is the least number of adjacent records that are removed with one tombstone;
// less in tests. A memtable that has one is flushed soon (rangeDeleteFlush in package
// storage), so units of relayDocs have none.
var relayRun = 250

// ErrRelayWaits says that the layout of a collection cannot be changed now, because an
// index of it is being built, a range of it is handed over, or others have changed it.
var ErrRelayWaits = errors.New("catalog: the layout of the collection cannot be changed now")

// RelayRule returns the rule whose windows a filled collection would get: the
// first one that can have windows, if the collection has none.
func (c *Collection) RelayRule() *Rule {
	if c.Ident == 0 || !c.mayBeLaidOut() {
		return nil
	}
	for _, r := range c.rules {
		if r.Kind != schema.ByID && layout.Windowable(r.Index.Index) {
			return r
		}
	}
	return nil
}

// RelayServes returns the rule that the windows serve during a relayout to windows;
// nil for none.
func (c *Collection) RelayServes() *Rule {
	if c.relay == nil || c.relay.Back {
		return nil
	}
	for _, r := range c.rules {
		if c.WindowedBy(r) {
			return r
		}
	}
	return nil
}

// WindowsIdle says that the collection has windows, but no TTL index by which they could
// be dropped.
func (c *Collection) WindowsIdle() bool {
	return c.relay == nil && c.Windowed() && !slices.ContainsFunc(c.indexes, func(ix *Index) bool {
		return ix.IsTTL() && c.sections.Serve(ix.Index)
	})
}

// BeginRelay begins the relayout of a collection to the windows of a rule or, where
// that is nil, from its windows to the order of _id. Errors: ErrRelayWaits where
// things have changed, ErrNoPermit, and 26.
func (c *Catalog) BeginRelay(ctx context.Context, coll *Collection, by *Rule, p *Permit) error {
	return p.Unit(func() error { return c.beginRelay(ctx, coll, by, p) })
}

func (c *Catalog) beginRelay(ctx context.Context, coll *Collection, by *Rule, p *Permit) error {
	return c.change(ctx, only(coll.live), func(t *change) error {
		now := coll.Latest()
		if now == nil {
			return mongoerr.New(mongoerr.NamespaceNotFound, "ns not found %s", coll.Namespace)
		}
		if now.building() || now.sharding.Moves() {
			return ErrRelayWaits
		}
		if err := p.Check(now); err != nil {
			return err
		}
		if by == nil {
			return t.beginBack(now)
		}
		return t.beginWindows(now, by)
	})
}

// building reports whether an index of the collection is being built.
func (c *Collection) building() bool {
	return slices.ContainsFunc(c.indexes, func(ix *Index) bool { return !ix.Ready })
}

func (t *change) beginWindows(coll *Collection, by *Rule) error {
	r := coll.RelayRule()
	if r == nil || r.Index.live != by.Index.live {
		return ErrRelayWaits
	}
	if odd, err := t.c.odd(coll); err != nil || odd {
		return errors.Join(ErrRelayWaits, err)
	}
	next := coll.with(func(n *Collection) { n.indexes = slices.Clone(coll.indexes) })
	if err := t.cluster(next, &layout.Relay{Windowed: coll.windowsOf(r.Index.Index)}); err != nil {
		return err
	}
	l := coll.live
	if err := t.u.AddSums(storage.IdentWindows, windowKey(nil, coll.Ident, layout.ByIDSection), []int64{l.counter.Load(sumDocs), l.counter.Load(sumBytes), 0}); err != nil {
		return err
	}
	if err := t.store(next); err != nil {
		return err
	}
	return t.setState(coll, layout.State{ByID: layout.NoneByID})
}

// odd reports whether a collection by _id has record keys that are impossible in the
// half by _id; no such collection is known.
func (c *Catalog) odd(coll *Collection) (bool, error) {
	for _, r := range layout.HalfWindows {
		if any, err := c.anyRecord(coll, r); err != nil || any {
			return any, err
		}
	}
	return false, nil
}

// anyRecord reports whether there is a record in a range.
func (c *Catalog) anyRecord(coll *Collection, r layout.KeyRange) (bool, error) {
	it, err := c.engine.NewIter(coll.Ident, r.From, r.To)
	if err != nil {
		return false, err
	}
	any := it.First()
	return any, it.Close()
}

// beginBack requires that no dead entry is left: record keys of windows will lose
// their meaning.
func (t *change) beginBack(coll *Collection) error {
	if !coll.WindowsIdle() || coll.live.swept.Load() != coll.live.lowWater.Load() {
		return ErrRelayWaits
	}
	w, ok := coll.layout.(layout.Windowed)
	if !ok {
		return ErrRelayWaits
	}
	next := coll.with(func(n *Collection) { n.setLayout(&layout.Relay{Windowed: w, Back: true}) })
	if err := t.store(next); err != nil {
		return err
	}
	state := coll.live.state()
	state.ByID = layout.NoneByID
	return t.setState(coll, state)
}

// setState stages the state of a collection's sections.
func (t *change) setState(coll *Collection, s layout.State) error {
	t.e.note(&windowsNote{of(coll), 0})
	return t.u.Set(storage.IdentWindows, identKey(coll.Ident), s.Encode())
}

// RelayLeft returns how many documents still have to leave their half; 0 if there
// is no relayout. Exact while the gate is closed.
func (c *Catalog) RelayLeft(coll *Collection) (int64, error) {
	if coll.relay == nil {
		return 0, nil
	}
	v, closer, err := c.engine.Get(storage.IdentWindows, windowKey(nil, coll.Ident, layout.ByIDSection))
	var sums [windowSums]int64
	if err == nil {
		err = errors.Join(storage.Sums(v, sums[:]), closer.Close())
	} else if errors.Is(err, storage.ErrNotFound) {
		err = nil
	}
	if coll.relay.Back {
		return coll.live.counter.Load(sumDocs) - sums[windowDocs], err
	}
	return sums[windowDocs], err
}

// RelayUnfreed estimates how many bytes on disk the documents still take that have left
// their half: those before a record key, nil for none.
func (c *Catalog) RelayUnfreed(coll *Collection, upTo RecordKey) (unfreed int64, err error) {
	if coll.relay == nil {
		return 0, nil
	}
	for _, r := range coll.relay.Left() {
		if r.To == nil || bytes.Compare(upTo, r.To) < 0 {
			r.To = upTo
		}
		if bytes.Compare(r.From, r.To) >= 0 {
			continue
		}
		n, err := c.engine.DiskUsageBetween(coll.Ident, r.From, r.To)
		if err != nil {
			return 0, err
		}
		unfreed += int64(n)
	}
	return unfreed, nil
}

// EndRelay ends a relayout when no document is left in the half that they leave; done
// reports whether it has ended. Before that, it removes the index entries of what was
// removed as a range; it calls pause as Sweep does. Errors: ErrRelayWaits, 26.
func (c *Catalog) EndRelay(ctx context.Context, coll *Collection, pause func(time.Duration) error) (done bool, err error) {
	if left, err := c.RelayLeft(coll); err != nil || left != 0 {
		return false, err
	}
	gone := coll.live.gone()
	if clean := gone.ByID <= layout.NoneByID && (!coll.relay.Back || coll.live.swept.Load() == gone.Low); !clean {
		if clean, err = c.sweep(ctx, coll, &Swept{}, pause); err != nil || !clean {
			return false, err
		}
	}
	err = c.change(ctx, only(coll.live), func(t *change) error {
		now := coll.Latest()
		if now == nil || now.relay == nil || now.relay.Back != coll.relay.Back || now.building() {
			return ErrRelayWaits
		}
		left, err := c.RelayLeft(now)
		if err != nil || left != 0 {
			return err
		}
		if now.relay.Back {
			if done = now.live.swept.Load() == now.live.lowWater.Load(); done {
				err = t.endBack(now)
			}
			return err
		}
		if done = now.live.gone().ByID == gone.ByID; done {
			err = t.endWindows(now)
		}
		return err
	})
	return done && err == nil, err
}

func (t *change) endWindows(coll *Collection) error {
	if err := t.u.Delete(storage.IdentWindows, windowKey(nil, coll.Ident, layout.ByIDSection), -1); err != nil {
		return err
	}
	if err := t.store(coll.with(func(n *Collection) { n.setLayout(coll.relay.Windowed) })); err != nil {
		return err
	}
	state := coll.live.state()
	state.ByID = ""
	return t.setState(coll, state)
}

func (t *change) endBack(coll *Collection) error {
	if err := t.dropEntries(coll.indexes[0]); err != nil {
		return err
	}
	if err := t.u.DeleteRange(storage.IdentWindows, identKey(coll.Ident), identKey(coll.Ident+1)); err != nil {
		return err
	}
	next := coll.with(func(n *Collection) {
		id := *coll.indexes[0]
		id.Ident, id.Records, id.ByPrefix = coll.Ident, true, nil
		n.indexes = slices.Clone(coll.indexes)
		n.indexes[0] = &id
		n.setLayout(layout.ByID{})
	})
	if err := t.store(next); err != nil {
		return err
	}
	t.e.note(&windowsNote{of(coll), 0})
	t.e.note(&forgottenNote{of(coll)})
	return nil
}

// Relay are the arguments of RelayPart.
type Relay struct {
	// From is where the part begins; nil for the beginning.
	From RecordKey
	// Bytes is the size of the part, up to a whole document: at most so much is on
	// disk twice, and so much work is lost if the process dies.
	Bytes int
	// Rule is the one that RelayServes: what is due by it stays in place, and is
	// removed with the part. Nil where everything moves.
	Rule *Rule
	// Now is the instant against which documents are checked, in milliseconds since
	// 1970.
	Now int64
	// Alone reports whether no client is active now; nil for never.
	Alone func() bool
	// Permit is checked before documents are moved or removed (invariant brake).
	Permit *Permit
	// Drops reports whether what is due may still be removed, by the newest
	// descriptor; it is called while the gate is closed. Nil where it may.
	Drops func(latest *Collection) bool
	// Did is called after each step with what it did and how long it took. It may block,
	// as no unit is open then, and its error ends the part.
	Did func(RelayStep, time.Duration) error
}

// RelayStep is what a step of a RelayPart did.
type RelayStep struct {
	// Passed documents were read; Moved of them are in the other half now.
	Passed, Moved int64
	// Gone is what was removed with the part.
	Gone Dropped
}

// RelayPart moves the next documents of the half that documents leave, and removes
// those that are due as a range, without reading them again. next is where the next
// part begins: at the same place if this one could not end. end says that there is no
// next part. Errors: 26, ErrRelayWaits, ErrNoPermit, and those of Did.
// REQUIRES: Collection.Relaying.
func (c *Catalog) RelayPart(ctx context.Context, coll *Collection, o Relay) (next RecordKey, end bool, err error) {
	if err := invariant.Require(coll.relay != nil, "catalog: RelayPart is of a collection that is being laid anew"); err != nil {
		return nil, false, err
	}
	coll.live.laying.Lock()
	defer coll.live.laying.Unlock()
	x := relayer{c: c, coll: coll, o: o, at: c.evaluate(), begun: time.Now()}
	x.size()
	if c.lists(coll) {
		x.list = coll.newList()
	}
	s := x.begin()
	defer s.Close()
	defer coll.live.leaving.Store(nil) // later ones are not needed
	if x.next, err = x.read(ctx, s); err != nil {
		return nil, false, err
	}
	if err := x.moveBusy(ctx); err != nil {
		return nil, false, err
	}
	whole := true
	if x.due == 0 {
		err = x.clear(ctx)
	} else {
		whole, err = x.drop(ctx)
	}
	switch {
	case err != nil:
		return nil, false, err
	case !whole:
		return o.From, false, nil
	}
	return x.next, x.next == nil, nil
}

// leaveWatch notes which due documents others take out of their half while a part of it
// is read. It is set while the gate is closed.
type leaveWatch struct {
	rule *Rule
	now  int64

	mu   sync.Mutex
	left []leftDoc
	// lost says that the watch could not note all.
	lost bool
}

// leftDoc is a document that has left its half.
type leftDoc struct {
	key  RecordKey
	size int64
	id   []byte // as in an idList
}

// leftDocs are those of a unit, for a watch.
type leftDocs struct {
	w *leaveWatch
	leftDoc
}

// noteLeft notes that the unit removes a document from a record key.
func (u *Unit) noteLeft(c *Collection, key RecordKey, old bson.Doc) {
	if !c.leaves(key) {
		return
	}
	if w := c.live.leaving.Load(); w != nil && w.rule.Due(old) <= w.now {
		u.left = append(u.left, leftDocs{w, leftDoc{bytes.Clone(key), int64(len(old)), bson.AppendTyped(nil, old.Lookup("_id"))}})
	}
}

// tellLeft informs the watches, when the unit has committed or its outcome is
// not known.
func (u *Unit) tellLeft(err error) {
	for _, l := range u.left {
		l.w.mu.Lock()
		if l.w.lost = l.w.lost || err != nil || len(l.w.left) == maxDueLeft; !l.w.lost {
			l.w.left = append(l.w.left, l.leftDoc)
		}
		l.w.mu.Unlock()
	}
}

// leaves reports whether a document with that record key moves when it is written.
func (c *Collection) leaves(key RecordKey) bool { return c.relay != nil && c.relay.Leaves(key) }

// updateAway is Update of a document that leaves its half, or whose record key follows
// from what has changed: in the same unit it moves to where it would be stored now
// (invariant old-still).
func (u *Unit) updateAway(ctx context.Context, c *Collection, old, doc bson.Doc) error {
	u.e.keeps = true
	u.from = append(u.from[:0], u.record...)
	defer func() { u.from = u.from[:0] }()
	u.record = c.layout.Append(u.record[:0], layout.Place{Doc: doc, ID: c.lockName(u.from), Low: c.live.lowWater.Load()})
	u.plan, u.keyRoom = u.plan[:0], 0
	if err := u.planOld(c, u.from, old); err != nil {
		return err
	}
	if !c.leaves(u.from) { // the new entry of _id replaces the old one
		u.plan = slices.DeleteFunc(u.plan, func(w entryWrite) bool { return w.ix.ByPrefix != nil })
	}
	if err := u.planNew(c, doc); err != nil {
		return err
	}
	if err := u.checkUnique(ctx, c); err != nil {
		return err
	}
	u.noteDue(c, doc)
	u.wrote(c)
	u.hint(c)
	if err := u.u.Delete(c.Ident, u.from, len(old)); err != nil {
		return err
	}
	u.stored = u.u.Count()
	if err := u.u.Set(c.Ident, u.record, doc); err != nil {
		return err
	}
	u.noteLeft(c, u.from, old)
	u.noteListed(c, u.from, old)
	u.noteListed(c, u.record, doc)
	if u.e.ops.on {
		u.e.ops.update(u.placeOps(c), old, doc, u.stored)
	}
	if u.keyRoom > maxKeptKeys {
		u.Memory.Settle(u.u.Size() + 2*u.keyRoom)
	}
	if err := u.writeEntries(c); err != nil {
		return err
	}
	u.docs++
	u.countWindow(c, 1, int64(len(doc)), u.third(c, doc))
	if size := int64(len(doc) - len(old)); size != 0 {
		u.u.Add(c.live.counter, sumBytes, size)
	}
	u.record = append(u.record[:0], u.from...)
	u.countWindow(c, -1, -int64(len(old)), -u.third(c, old))
	return nil
}

// relayer is a running RelayPart.
type relayer struct {
	c     *Catalog
	coll  *Collection
	o     Relay
	at    Evaluation
	watch *leaveWatch
	begun time.Time // of the step
	next  RecordKey
	group []RecordKey // that move in the next unit, up to most
	of    []leaver    // for each of them
	bytes int         // their documents'
	most  int
	busy  []RecordKey // that other units had locked

	passed        int64   // since the last step
	due, dueBytes int64   // that stay
	list          *idList // of those; nil if they are not listed
}

// leaver is what is known of a record that leaves its half.
type leaver struct {
	size int // of the document, which does not change there (invariant old-still)
	// apart says that what stays lies between it and the one before.
	apart bool
}

// begin sets the watch, and returns the state of the store at that moment.
func (x *relayer) begin() *storage.Snapshot {
	l := x.coll.live
	l.gate.Lock()
	defer l.gate.Unlock()
	if x.o.Rule != nil {
		x.watch = &leaveWatch{rule: x.o.Rule, now: x.o.Now}
		l.leaving.Store(x.watch)
	}
	return x.c.engine.NewSnapshot()
}

// read reads the part in one state of the store, moves what is not due, and counts
// the rest.
func (x *relayer) read(ctx context.Context, s *storage.Snapshot) (next RecordKey, err error) {
	size := 0
	for _, r := range x.coll.relay.Left() {
		from := r.From
		if bytes.Compare(from, x.o.From) < 0 {
			from = x.o.From
		}
		if r.To != nil && bytes.Compare(from, r.To) >= 0 {
			continue
		}
		if next, err = x.readRange(ctx, s, from, r.To, &size); err != nil || next != nil {
			return next, err
		}
	}
	return nil, x.moveGroup(ctx)
}

func (x *relayer) readRange(ctx context.Context, s *storage.Snapshot, from, to RecordKey, size *int) (next RecordKey, err error) {
	it, err := s.NewIter(x.coll.Ident, from, to)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	apart := true // the other half lies between two ranges
	for ok := it.First(); ok; ok = it.Next() {
		if *size >= x.o.Bytes || x.list != nil && len(x.list.bytes) >= maxRelayList {
			return bytes.Clone(it.Key()), x.moveGroup(ctx)
		}
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		*size += len(v)
		x.passed++
		if x.o.Rule != nil && x.o.Rule.Due(v) <= x.o.Now {
			x.due++
			x.dueBytes += int64(len(v))
			apart = true
			if x.list != nil {
				if err := x.list.add(v); err != nil {
					return nil, err
				}
			}
		} else {
			x.group = append(x.group, bytes.Clone(it.Key()))
			x.of = append(x.of, leaver{len(v), apart})
			x.bytes += len(v)
			apart = false
		}
		if len(x.group) >= x.most || x.bytes >= relayUnitBytes || x.passed == relayRead {
			if err := x.moveGroup(ctx); err != nil {
				return nil, err
			}
		}
	}
	return nil, it.Err()
}

// maxRelayList bounds the list of what is removed with a part, in bytes: a part ends
// there.
const maxRelayList = 2 << 20

// relayRead is how many documents are read in a step at most.
const relayRead = 10_000

// moveGroup moves some documents, and reports the step. Those that others have locked
// come last.
func (x *relayer) moveGroup(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	moved := int64(0)
	if len(x.group) > 0 {
		var busy []RecordKey
		err := x.run(ctx, func(u *Unit) (err error) {
			moved = 0
			busy, err = u.LockRecords(ctx, x.coll, x.group, func(k RecordKey, doc bson.Doc) error {
				moved++
				return x.move(u, k, doc)
			})
			if err != nil {
				return err
			}
			return x.leave(u, busy)
		})
		if err != nil {
			return err
		}
		x.busy = append(x.busy, busy...)
		passed := x.group[len(x.group)-1]
		x.coll.live.relayed.Store(&passed)
		x.group, x.of, x.bytes = x.group[:0], x.of[:0], 0
	}
	x.size()
	return x.did(RelayStep{Passed: x.passed, Moved: moved})
}

// leave removes the records of a group that have moved: all but the busy ones. Among
// those of a run no other is stored, as none is added to the half (invariant old-still).
func (x *relayer) leave(u *Unit, busy []RecordKey) error {
	isBusy := func(k RecordKey) bool { return len(busy) > 0 && bytes.Equal(busy[0], k) }
	for i := 0; i < len(x.group); {
		if isBusy(x.group[i]) {
			busy = busy[1:]
			i++
			continue
		}
		run := i
		for i++; i < len(x.group) && !x.of[i].apart && !isBusy(x.group[i]); i++ {
		}
		if i-run >= relayRun {
			if err := u.u.DeleteRange(x.coll.Ident, x.group[run], append(bytes.Clone(x.group[i-1]), 0)); err != nil {
				return err
			}
			continue
		}
		for ; run < i; run++ {
			if err := u.u.Delete(x.coll.Ident, x.group[run], x.of[run].size); err != nil {
				return err
			}
		}
	}
	return nil
}

// size returns how many documents the next unit has at most.
func (x *relayer) size() {
	if x.most = relayDocs; x.o.Alone != nil && x.o.Alone() {
		x.most = relayDocsAlone
	}
}

// run is Catalog.Run for a unit that moves documents.
func (x *relayer) run(ctx context.Context, f func(*Unit) error) error {
	return x.o.Permit.Unit(func() error { return x.c.Run(ctx, storage.Buffered, f) })
}

// did ends a step.
func (x *relayer) did(s RelayStep) (err error) {
	x.passed = 0
	if x.o.Did != nil {
		err = x.o.Did(s, time.Since(x.begun))
	}
	x.begun = time.Now()
	return err
}

// move moves a locked document, unless that is not possible now. The caller removes its
// record.
func (x *relayer) move(u *Unit, k RecordKey, doc bson.Doc) error {
	now := u.inLatest(x.coll)
	if err := x.o.Permit.Check(now); err != nil {
		return err
	}
	// A build finds duplicates among the documents it meets; one that moves to where
	// the build has been would be missed.
	if now.building() || !now.leaves(k) || now.sharding.Moves() {
		return ErrRelayWaits
	}
	return u.storeMoved(now, k, doc)
}

// moveBusy moves the documents that others had locked.
func (x *relayer) moveBusy(ctx context.Context) error {
	for _, k := range x.busy {
		moved := int64(0)
		err := x.run(ctx, func(u *Unit) error {
			moved = 0
			doc, err := u.LockRecord(ctx, x.coll, k)
			if err != nil || doc == nil || !u.inLatest(x.coll).leaves(u.resolve(k)) {
				return err
			}
			moved++
			if err := x.move(u, k, doc); err != nil {
				return err
			}
			return u.u.Delete(x.coll.Ident, k, len(doc))
		})
		if err == nil {
			err = x.did(RelayStep{Moved: moved})
		}
		if err != nil {
			return err
		}
	}
	x.busy = nil
	return nil
}

// part returns the part as ranges of records.
func (x *relayer) part() (all []layout.KeyRange) {
	for _, r := range x.coll.relay.Left() {
		if bytes.Compare(r.From, x.o.From) < 0 {
			r.From = x.o.From
		}
		if x.next != nil && (r.To == nil || bytes.Compare(x.next, r.To) < 0) {
			r.To = x.next
		}
		if r.To == nil || bytes.Compare(r.From, r.To) < 0 {
			all = append(all, r)
		}
	}
	return all
}

// clear covers a part from which everything has moved with a tombstone, so that its
// tables are dropped as a whole. Nothing is stored there any more.
func (x *relayer) clear(ctx context.Context) error {
	if err := x.coll.live.gate.RLock(ctx); err != nil {
		return err
	}
	defer x.coll.live.gate.RUnlock()
	if now := x.coll.Latest(); now == nil || now.relay == nil || now.relay.Back != x.coll.relay.Back {
		return ErrRelayWaits
	}
	e := x.c.begin(x.coll, x.at)
	defer e.u.Abort()
	for _, r := range x.part() {
		if err := e.u.DeleteRange(x.coll.Ident, r.From, r.To); err != nil {
			return err
		}
	}
	e.u.Frees()
	return x.c.commit(ctx, e, storage.Buffered)
}

// drop removes what is due with the part. It closes the gate: nobody else writes to
// the collection. Where the part has to be read again, nothing is removed.
func (x *relayer) drop(ctx context.Context) (whole bool, err error) {
	var gone Dropped
	err = x.o.Permit.Unit(func() error {
		l := x.coll.live
		l.gate.Lock()
		defer l.gate.Unlock()
		latest := x.coll.Latest()
		if latest == nil || latest.relay == nil || latest.relay.Back || latest.sharding.Moves() {
			return ErrRelayWaits
		}
		if err := x.o.Permit.Check(latest); err != nil {
			return err
		}
		if x.o.Drops != nil && !x.o.Drops(latest) {
			return ErrNoPermit
		}
		if x.watch.lost {
			return nil
		}
		sum := [windowSums]int64{windowDocs: x.due, windowSize: x.dueBytes}
		ids := map[string]struct{}{}
		for _, d := range x.watch.left {
			if bytes.Compare(d.key, x.o.From) >= 0 && (x.next == nil || bytes.Compare(d.key, x.next) < 0) {
				sum[windowDocs]--
				sum[windowSize] -= d.size
				ids[string(d.id)] = struct{}{}
			}
		}
		if x.list != nil && len(ids) > 0 {
			if err := x.list.leave(ids); err != nil {
				return err
			}
		}
		if err := x.dropSum(ctx, latest, sum); err != nil {
			return err
		}
		whole = true
		gone = Dropped{Docs: sum[windowDocs], Bytes: sum[windowSize], Keys: sum[windowDocs] * int64(len(latest.indexes)-1), Windows: 1}
		return nil
	})
	if err != nil || !whole {
		return false, err
	}
	return true, x.did(RelayStep{Gone: gone})
}

// dropSum drops the part, given its sum. REQUIRES: the gate is closed.
func (x *relayer) dropSum(ctx context.Context, coll *Collection, sum [windowSums]int64) error {
	l := coll.live
	if err := l.gate.requireClosed(); err != nil {
		return err
	}
	e := x.c.begin(coll, x.at)
	u := e.u
	defer u.Abort()
	part := x.part()
	for _, r := range part {
		if err := u.DeleteRange(coll.Ident, r.From, r.To); err != nil {
			return err
		}
	}
	state := l.state()
	if state.ByID = string(x.next); x.next == nil {
		state.ByID = layout.AllByID
	}
	if l.counter.Load(sumDocs) == sum[windowDocs] {
		state.ByID = layout.NoneByID // nothing is left: the indexes are emptied, too
		if state.Swept = state.Low; sum[windowDocs] > 0 {
			if err := x.c.dropAllEntries(u, coll); err != nil {
				return err
			}
		}
	}
	if err := u.Set(storage.IdentWindows, identKey(coll.Ident), state.Encode()); err != nil {
		return err
	}
	if err := u.AddSums(storage.IdentWindows, windowKey(nil, coll.Ident, layout.ByIDSection), []int64{-sum[windowDocs], -sum[windowSize], 0}); err != nil {
		return err
	}
	u.Frees()
	u.Add(l.counter, sumDocs, -sum[windowDocs])
	u.Add(l.counter, sumBytes, -sum[windowSize])
	e.note(&windowsNote{of(coll), 0})
	switch {
	case x.list == nil:
		e.recordKeys(coll, part, sum, x.o.Rule.Index.Name)
	case x.list.n > 0:
		invariant.Check(int64(x.list.n) == sum[windowDocs], "catalog: a list has the documents that a drop takes")
		e.recordExpired(coll, x.list, x.o.Rule.Index.Name)
	}
	return x.c.commit(ctx, e, storage.Buffered)
}
