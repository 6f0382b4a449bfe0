package repl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// DefaultHistory is how long a state is kept after it was taken.
	DefaultHistory = 300 * time.Second
	// maxKeptStates bounds how many are kept: each keeps compactions from dropping a
	// version of what is written.
	maxKeptStates = 1024
	// stateSpacing is how far apart states are taken while reads at earlier times come; those
	// between are made from the one before and the log.
	stateSpacing = 5 * time.Millisecond
	// maxLaidBytes bounds the entries of the log that make a state of an earlier one, and what
	// they come to, and maxKeptLaid what all states that were made so hold in memory.
	maxLaidBytes = 32 << 20
	maxKeptLaid  = 128 << 20
	// expectFor is how long states are taken, one every expectEvery, after somebody has said
	// that reads of several members at one time come.
	expectFor   = 10 * time.Second
	expectEvery = 500 * time.Millisecond
	// rememberFor is how long commits are remembered after that: for transactions that begin
	// at a time of then.
	rememberFor = 60 * time.Second
	// maxStepsBack bounds how many entries are read to find out since when a state has
	// existed. They are noops, usually one in ten seconds.
	maxStepsBack = 1024
)

// KeptStates are states of a member's store that were read at their cluster time, and
// may be read again (docs/rfcs/0022-states-at-a-time.md). Safe for use by many
// goroutines.
type KeptStates struct {
	m       *Member
	history atomic.Int64 // nanoseconds

	mu    sync.Mutex
	all   []*keptState // in the order in which they were taken
	timer *time.Timer  // of the oldest one's end; nil until there is one
	over  bool         // the member ends
	laid  int          // bytes that states of all hold in memory

	// expected is until when reads of several members at one time are expected; expects takes
	// states until then. remembering is the engine that remembers commits for them, nil for none.
	expected    time.Time
	expects     *time.Timer
	remembering *storage.Engine

	counts struct{ taken, made, evicted, expired, tooOld atomic.Int64 }
}

// keptState is the state of the store between two effects.
type keptState struct {
	at Position // the last entry that it holds
	// from is the time of its last effect. until is the first time of the next effect; 0
	// if there was none at the last check.
	from, until Timestamp
	s           storage.State
	taken, used time.Time
	// prepared are the transactions that are prepared in it; nil where those are decided that
	// were committed at or before the only time for which it is kept.
	prepared []catalog.PreparedKey
	// laid is how many bytes of it are in memory, over another state; such a state is the one
	// of a time alone, at.Time.
	laid int
}

// StateAt is one reader's reference to a state of the store. It must be closed.
type StateAt struct {
	Time     Timestamp // the cluster time of the state
	Snapshot storage.State
	taken    time.Time
	kept     *KeptStates
	prepared []catalog.PreparedKey
	at       Position
}

// Close releases the reference.
func (s *StateAt) Close() { _ = s.Snapshot.Close() }

// Check reports whether the state may still be read. Error 239 once the window of history
// is over.
func (s *StateAt) Check() error {
	if h := s.kept.window(); h > 0 && time.Since(s.taken) > h {
		return s.kept.tooOld(s.Time)
	}
	return nil
}

// Unchanged reports whether nothing has taken effect between the state and an entry of the
// log: only noops and the like. Errors: those of the disk.
func (s *StateAt) Unchanged(upTo uint64) (bool, error) {
	m := s.kept.m
	from, err := s.Snapshot.Applied()
	if err != nil || from >= upTo {
		return from == upTo, err
	}
	_, found, known, err := m.effectIn(from, upTo)
	return known && !found, err
}

// SetHistory sets how long a state is kept after it was taken; 0 keeps none.
func (k *KeptStates) SetHistory(d time.Duration) {
	k.history.Store(int64(d))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked(time.Now())
}

func (k *KeptStates) window() time.Duration { return time.Duration(k.history.Load()) }

// KeptStates returns the states that the member keeps.
func (m *Member) KeptStates() *KeptStates { return &m.kept }

// StateAt returns the state of the member's store at a cluster time, which is not above
// what it has applied (WaitTime); 0 stands for the newest state. Errors: 239 if that
// state is not kept, and no earlier one of which the log makes it.
func (m *Member) StateAt(t Timestamp) (*StateAt, error) {
	k := &m.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.expireLocked(now)
	if t != 0 {
		for i := len(k.all) - 1; i >= 0; i-- {
			ok, err := k.all[i].holds(m, t)
			if err != nil {
				return nil, err
			}
			if ok {
				return k.share(k.all[i], t, now), nil
			}
		}
		if base := k.baseLocked(t); base != nil && now.Sub(k.lastTakenLocked()) < stateSpacing {
			if s, err := k.makeLocked(base, t, now); s != nil || err != nil {
				return s, err
			}
		}
	}
	s, err := k.takeLocked(now)
	if err != nil {
		return nil, err
	}
	if k.window() == 0 {
		defer s.s.Close()
	}
	switch {
	case t == 0:
		return k.share(s, s.at.Time, now), nil
	case t >= s.from:
		return k.share(s, t, now), nil
	}
	if base := k.baseLocked(t); base != nil {
		if s, err := k.makeLocked(base, t, now); s != nil || err != nil {
			return s, err
		}
	}
	return nil, k.tooOld(t)
}

// lastTakenLocked returns when the newest state was taken.
func (k *KeptStates) lastTakenLocked() (last time.Time) {
	for _, s := range k.all {
		if s.laid == 0 && s.taken.After(last) {
			last = s.taken
		}
	}
	return last
}

// baseLocked returns the latest state that was taken of a time before another one; nil for
// none.
func (k *KeptStates) baseLocked(t Timestamp) (base *keptState) {
	for _, s := range k.all {
		if s.laid == 0 && s.at.Time <= t && (base == nil || s.at.Index > base.at.Index) {
			base = s
		}
	}
	return base
}

// makeLocked makes the state at a time: an earlier state with the effects of the log up to the
// time laid over it. It is nil if that cannot be: the time is within an effect of several
// operations, or there is too much between. Errors: those of the disk.
func (k *KeptStates) makeLocked(base *keptState, t Timestamp, now time.Time) (*StateAt, error) {
	laid := k.m.catalog.Engine().LayOver(base.s)
	s := &keptState{at: base.at, from: base.from, s: laid, taken: now, used: now}
	ok, err := k.layUpTo(laid, s, t)
	if err == nil && ok {
		laid.At(s.at.Index)
		s.at.Time = t
		s.prepared, err = k.m.catalog.PreparedIn(laid)
	}
	if err != nil || !ok {
		return nil, errors.Join(err, laid.Close())
	}
	s.laid = max(laid.Size(), 1)
	k.counts.made.Add(1)
	k.keepLocked(s)
	shared := k.share(s, t, now)
	return shared, nil
}

// layUpTo lays the effects up to a time over the state s, and moves s to the last entry that it
// has then. It reports false where that cannot be.
func (k *KeptStates) layUpTo(laid *storage.LaidState, s *keptState, t Timestamp) (ok bool, err error) {
	e, group := k.m.catalog.Engine(), k.m.store.opts.Group
	it, err := e.NewIter(storage.IdentRaft, entryKey(group, s.at.Index+1), entryKey(group, e.Applied()+1))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	bytes := 0
	if !goesOn(it, s.at.Index) {
		return false, it.Err() // what is between is no longer known
	}
	for ok := true; ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return false, err
		}
		en, term, isTimed, err := timed(v)
		if err != nil {
			return false, err
		}
		if !isTimed {
			continue
		}
		at := Position{Index: indexOf(it.Key()), Term: term, Time: en.time}
		if en.time > t {
			if !en.changes(term) {
				return true, nil
			}
			n, err := en.documents()
			return err == nil && en.time-Timestamp(max(n, 1)-1) > t, err
		}
		s.at = at
		if !en.changes(term) {
			continue
		}
		s.from = en.time
		if bytes += len(v); bytes > maxLaidBytes {
			return false, nil
		}
		if ok, err := k.layEntry(laid, &en, at); err != nil || !ok {
			return false, err
		}
		if laid.Size() > maxLaidBytes { // an entry may be the last one of a chain
			return false, nil
		}
	}
	return true, it.Err()
}

// layEntry lays the effect of an entry over a state; false if that cannot be.
func (k *KeptStates) layEntry(laid *storage.LaidState, en *entry, at Position) (ok bool, err error) {
	payload := en.payload
	if en.kind == kindLast {
		if payload, err = readChain(k.m.catalog.Engine(), k.m.store.opts.Group, payload); errors.Is(err, errChainCut) || len(payload) > maxLaidBytes {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	err = k.m.catalog.Lay(laid, payload, catalog.LogPosition{Index: at.Index, Term: at.Term, Time: uint64(at.Time)})
	if errors.Is(err, storage.ErrTooMuchLaid) {
		return false, nil
	}
	return err == nil, err
}

// keepLocked keeps a state. Where there are too many, one goes.
func (k *KeptStates) keepLocked(s *keptState) {
	for len(k.all) >= maxKeptStates || s.laid > 0 && len(k.all) > 0 && k.laid+s.laid > maxKeptLaid {
		k.dropLocked(k.superfluous(s.laid > 0 && k.laid+s.laid > maxKeptLaid))
		k.counts.evicted.Add(1)
	}
	k.all = append(k.all, s)
	k.laid += s.laid
	k.armLocked(s.taken)
}

// superfluous returns which of the states is the least loss: of those that were made, and can be
// made again, the one that was used longest ago; else the one that is nearest to the one before
// it, as times between are made from that. made says that it has to be one that was made.
func (k *KeptStates) superfluous(made bool) (i int) {
	i = -1
	for j, s := range k.all {
		if s.laid > 0 && (i < 0 || s.used.Before(k.all[i].used)) {
			i = j
		}
	}
	if i >= 0 || made {
		return max(i, 0)
	}
	i = 0
	least := time.Duration(math.MaxInt64)
	for j := 1; j < len(k.all)-1; j++ {
		if gap := k.all[j+1].taken.Sub(k.all[j-1].taken); gap < least {
			i, least = j, gap
		}
	}
	return i
}

// dropLocked releases the state with a number.
func (k *KeptStates) dropLocked(i int) {
	_ = k.all[i].s.Close()
	k.laid -= k.all[i].laid
	k.all = slices.Delete(k.all, i, i+1)
}

// Expect says that reads of several members at one time come: states are taken for a while, so
// that there is one before each such time, and commits are remembered, so that transactions may
// write at such a time. Errors: those of the disk.
func (m *Member) Expect() error {
	k := &m.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.window() == 0 {
		return nil
	}
	now := time.Now()
	k.expireLocked(now)
	k.expected = now.Add(expectFor)
	if e := m.catalog.Engine(); k.remembering != e {
		k.forgetLocked()
		k.remembering = e
		e.Remember()
	}
	if k.expects == nil {
		k.expects = time.AfterFunc(expectEvery, k.expectNext)
	} else {
		k.expects.Reset(expectEvery)
	}
	if now.Sub(k.lastTakenLocked()) < expectEvery {
		return nil
	}
	_, err := k.takeLocked(now)
	return err
}

// expectNext is called by the timer.
func (k *KeptStates) expectNext() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	switch {
	case k.over || k.remembering == nil || k.remembering != k.m.catalog.Engine():
		return
	case now.Before(k.expected):
		k.expireLocked(now)
		if k.window() > 0 {
			_, _ = k.takeLocked(now) // who reads is told of the disk's error
		}
		k.expects.Reset(expectEvery)
	case now.Before(k.expected.Add(rememberFor)):
		k.expects.Reset(k.expected.Add(rememberFor).Sub(now))
	default:
		k.forgetLocked()
	}
}

// forgetLocked ends the remembering of commits.
func (k *KeptStates) forgetLocked() {
	if k.remembering != nil {
		k.remembering.Forget()
		k.remembering = nil
	}
}

func (k *KeptStates) tooOld(t Timestamp) error {
	k.counts.tooOld.Add(1)
	return mongoerr.New(mongoerr.SnapshotTooOld, "Read timestamp %s is older than the oldest available timestamp.", bson.Timestamp(uint64(t)))
}

// share makes a reader's reference to a state.
func (k *KeptStates) share(s *keptState, t Timestamp, now time.Time) *StateAt {
	s.used = now
	return &StateAt{Time: t, Snapshot: s.s.Share(), taken: s.taken, kept: k, prepared: s.prepared, at: s.at}
}

// takeLocked takes the newest state, unless it is kept already.
func (k *KeptStates) takeLocked(now time.Time) (*keptState, error) {
	e := k.m.catalog.Engine()
	for applied, i := e.Applied(), len(k.all)-1; i >= 0; i-- {
		if s := k.all[i]; s.laid == 0 && s.at.Index == applied {
			return s, nil
		}
	}
	s := &keptState{s: e.KeepState(), taken: now, used: now}
	if err := s.place(k.m.store.opts.Group); err != nil {
		return nil, errors.Join(err, s.s.Close())
	}
	var err error
	if s.prepared, err = k.m.catalog.PreparedIn(s.s); err != nil {
		return nil, errors.Join(err, s.s.Close())
	}
	k.counts.taken.Add(1)
	if k.window() == 0 || k.over {
		return s, nil
	}
	k.keepLocked(s)
	return s, nil
}

// place reads from the log in the state itself its position, and since when it has
// existed.
func (s *keptState) place(group Number) (err error) {
	if s.at.Index, err = s.s.Applied(); err != nil {
		return err
	}
	it, err := s.s.NewIter(storage.IdentRaft, groupKey(group, keyEntry), entryKey(group, s.at.Index+1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	steps := 0
	for ok := it.Last(); ok && steps < maxStepsBack; ok = it.Prev() {
		steps++
		v, err := it.Value()
		if err != nil {
			return err
		}
		e, term, timed, err := timed(v)
		if err != nil {
			return err
		}
		if !timed {
			continue
		}
		if s.at.Time == 0 {
			s.at.Time, s.at.Term = e.time, term
		}
		s.from = e.time
		if e.changes(term) {
			return nil
		}
	}
	if err := it.Err(); err != nil || s.at.Time != 0 {
		return err
	}
	v, closer, err := s.s.Get(storage.IdentRaft, groupKey(group, keyBase))
	if errors.Is(err, storage.ErrNotFound) {
		return nil // of no set yet
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	base, _, ok := cutPosition(v)
	if !ok {
		return fmt.Errorf("%w: base of the log is %x", storage.ErrCorruption, v)
	}
	s.at, s.from = base, base.Time
	return nil
}

// holds reports whether the state is the one at a cluster time: no effect lies
// between.
func (s *keptState) holds(m *Member, t Timestamp) (bool, error) {
	if s.laid > 0 {
		return t == s.at.Time, nil
	}
	if t < s.from {
		return false, nil
	}
	if s.until == 0 && t > s.at.Time {
		if err := s.next(m); err != nil {
			return false, err
		}
	}
	return t <= s.at.Time || s.until == 0 || t < s.until, nil
}

// next finds the first effect after the state.
func (s *keptState) next(m *Member) error {
	at, found, known, err := m.effectIn(s.at.Index, m.catalog.Engine().Applied())
	switch {
	case err != nil:
		return err
	case !known:
		s.until = s.at.Time + 1
	case found:
		s.until = at
	}
	return nil
}

// effectIn returns the first time of the first effect behind an entry of the log, up to another
// one. It is not known where the log no longer goes back that far.
func (m *Member) effectIn(after, upTo uint64) (at Timestamp, found, known bool, err error) {
	if after >= upTo {
		return 0, false, true, nil
	}
	group := m.store.opts.Group
	it, err := m.catalog.Engine().NewIter(storage.IdentRaft, entryKey(group, after+1), entryKey(group, upTo+1))
	if err != nil {
		return 0, false, false, err
	}
	defer it.Close()
	if !goesOn(it, after) {
		return 0, false, false, it.Err()
	}
	for ok := true; ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return 0, false, false, err
		}
		e, term, timed, err := timed(v)
		if err != nil {
			return 0, false, false, err
		}
		if !timed || !e.changes(term) {
			continue
		}
		n, err := e.documents()
		return e.time - Timestamp(max(n, 1)-1), err == nil, err == nil, err
	}
	return 0, false, true, it.Err()
}

// goesOn moves a walk of the log from behind an entry on to its first one, and reports whether
// that is the next: the log is truncated before that is told.
func goesOn(it *storage.Iter, after uint64) bool {
	return it.First() && indexOf(it.Key()) == after+1
}

// expireLocked releases the states whose time is over.
func (k *KeptStates) expireLocked(now time.Time) {
	before := len(k.all)
	k.all = slices.DeleteFunc(k.all, func(s *keptState) bool {
		over := now.Sub(s.taken) >= k.window()
		if over {
			_ = s.s.Close()
			k.laid -= s.laid
		}
		return over
	})
	k.counts.expired.Add(int64(before - len(k.all)))
}

// armLocked sets the timer for the end of the oldest state.
func (k *KeptStates) armLocked(now time.Time) {
	if len(k.all) == 0 || k.over {
		return
	}
	left := k.all[0].taken.Add(k.window()).Sub(now)
	if k.timer == nil {
		k.timer = time.AfterFunc(left, k.expired)
	} else {
		k.timer.Reset(left)
	}
}

// expired is called by the timer.
func (k *KeptStates) expired() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.expireLocked(now)
	k.armLocked(now)
}

// drop releases all states: another store is about to replace this one.
func (k *KeptStates) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.all {
		_ = s.s.Close()
	}
	k.all, k.laid = nil, 0
	k.forgetLocked()
}

// stop releases all states when the member ends.
func (k *KeptStates) stop() {
	k.drop()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	for _, t := range []*time.Timer{k.timer, k.expects} {
		if t != nil {
			t.Stop()
		}
	}
}

// AppendStatus writes how many states are kept, and counts of reads.
func (k *KeptStates) AppendStatus(b *bson.Builder) {
	k.mu.Lock()
	n, laid := len(k.all), k.laid
	k.mu.Unlock()
	b.Int64("kept", int64(n)).Int64("taken", k.counts.taken.Load()).Int64("made", k.counts.made.Load()).Int64("madeBytes", int64(laid)).Int64("evicted", k.counts.evicted.Load()).
		Int64("expired", k.counts.expired.Load()).Int64("tooOld", k.counts.tooOld.Load())
}

// AwaitState is StateAt for a reader: it waits until the member has applied all up to
// the time, and until all that is prepared in the state is decided. What of that was committed
// at or before the time is laid over the state: its entries of the log come later. Errors: also
// 246 if such a decision is not remembered any more; the cause of ctx's end.
func (m *Member) AwaitState(ctx context.Context, t Timestamp) (*StateAt, error) {
	if t != 0 {
		if err := m.WaitTime(ctx, t); err != nil {
			return nil, err
		}
	}
	s, err := m.StateAt(t)
	if err != nil || len(s.prepared) == 0 {
		return s, err
	}
	whole, err := s.whole(ctx)
	if whole != s {
		s.Close()
	}
	return whole, err
}

// whole waits until all that is prepared in the state is decided, and returns the state that
// has what of it was committed at or before the state's time: s itself, if nothing was.
func (s *StateAt) whole(ctx context.Context) (*StateAt, error) {
	var later []uint64 // the indexes of the commits' entries
	for _, key := range s.prepared {
		d, known, err := s.kept.m.catalog.AwaitDecision(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case !known:
			return nil, s.unavailable()
		case d.Commit != 0 && d.Commit <= uint64(s.Time):
			later = append(later, d.Index)
		}
	}
	if len(later) == 0 {
		return s, nil
	}
	slices.Sort(later)
	return s.kept.complete(s, later)
}

func (s *StateAt) unavailable() error {
	return mongoerr.New(mongoerr.SnapshotUnavailable, "Unable to read from a snapshot at %s: it is not known any more what was committed by transactions over several shards at or before that time, and was applied here after it",
		bson.Timestamp(uint64(s.Time)))
}

// complete makes of a state the one that has the effects of later entries, too.
func (k *KeptStates) complete(of *StateAt, later []uint64) (*StateAt, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	e := k.m.catalog.Engine()
	laid := e.LayOver(of.Snapshot)
	s := &keptState{at: of.at, s: laid, taken: of.taken, used: now}
	s.at.Time = of.Time
	err := k.layEntries(of, laid, later)
	if err != nil {
		return nil, errors.Join(err, laid.Close())
	}
	laid.At(of.at.Index)
	s.laid = max(laid.Size(), 1)
	k.counts.made.Add(1)
	if k.window() == 0 || k.over {
		defer laid.Close()
		return k.share(s, of.Time, now), nil
	}
	k.keepLocked(s)
	return k.share(s, of.Time, now), nil
}

// layEntries lays the effects of entries over a state.
func (k *KeptStates) layEntries(of *StateAt, laid *storage.LaidState, indexes []uint64) error {
	for _, index := range indexes {
		v, closer, err := k.m.catalog.Engine().Get(storage.IdentRaft, entryKey(k.m.store.opts.Group, index))
		if errors.Is(err, storage.ErrNotFound) {
			return of.unavailable()
		}
		if err != nil {
			return err
		}
		en, term, _, err := timed(v)
		ok := false
		if err == nil {
			ok, err = k.layEntry(laid, &en, Position{Index: index, Term: term, Time: en.time})
		}
		if err := errors.Join(err, closer.Close()); err != nil {
			return err
		}
		if !ok || laid.Size() > maxLaidBytes {
			return of.unavailable()
		}
	}
	return nil
}
