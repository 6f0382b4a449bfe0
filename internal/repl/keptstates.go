package repl

import (
	"context"
	"errors"
	"fmt"
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
	maxKeptStates = 256
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

	counts struct{ taken, evicted, expired, tooOld atomic.Int64 }
}

// keptState is the state of the store between two effects.
type keptState struct {
	at Position // the last entry that it holds
	// from is the time of its last effect. until is the first time of the next effect; 0
	// if there was none at the last check.
	from, until Timestamp
	s           *storage.Snapshot
	taken, used time.Time
	// prepared are the transactions that are prepared in it.
	prepared []catalog.PreparedKey
}

// StateAt is one reader's reference to a state of the store. It must be closed.
type StateAt struct {
	Time     Timestamp // the cluster time of the state
	Snapshot storage.State
	taken    time.Time
	kept     *KeptStates
	prepared []catalog.PreparedKey
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
	if m.replica.State().Base.Index > from {
		return false, nil // this is no longer known
	}
	_, found, err := m.effectIn(from, upTo)
	return !found, err
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
// state is no longer kept.
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
	}
	s, err := k.takeLocked(now)
	if err != nil {
		return nil, err
	}
	if t == 0 {
		t = s.at.Time
	}
	if t < s.from {
		if k.window() == 0 {
			_ = s.s.Close()
		}
		return nil, k.tooOld(t)
	}
	shared := k.share(s, t, now)
	if k.window() == 0 {
		_ = s.s.Close()
	}
	return shared, nil
}

func (k *KeptStates) tooOld(t Timestamp) error {
	k.counts.tooOld.Add(1)
	return mongoerr.New(mongoerr.SnapshotTooOld, "Read timestamp %s is older than the oldest available timestamp.", bson.Timestamp(uint64(t)))
}

// share makes a reader's reference to a state.
func (k *KeptStates) share(s *keptState, t Timestamp, now time.Time) *StateAt {
	s.used = now
	return &StateAt{Time: t, Snapshot: s.s.Share(), taken: s.taken, kept: k, prepared: s.prepared}
}

// takeLocked takes the newest state, unless it is kept already.
func (k *KeptStates) takeLocked(now time.Time) (*keptState, error) {
	e := k.m.catalog.Engine()
	if n := len(k.all); n > 0 && k.all[n-1].at.Index == e.Applied() {
		return k.all[n-1], nil
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
	if len(k.all) == maxKeptStates {
		i := 0
		for j, other := range k.all {
			if other.used.Before(k.all[i].used) {
				i = j
			}
		}
		_ = k.all[i].s.Close()
		k.all = slices.Delete(k.all, i, i+1)
		k.counts.evicted.Add(1)
	}
	k.all = append(k.all, s)
	k.armLocked(now)
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
	if t < s.from {
		return false, nil
	}
	if s.until == 0 && t > s.at.Time {
		if m.replica.State().Base.Index > s.at.Index {
			s.until = s.at.Time + 1 // this is no longer known
		} else if err := s.next(m); err != nil {
			return false, err
		}
	}
	return t <= s.at.Time || s.until == 0 || t < s.until, nil
}

// next finds the first effect after the state.
func (s *keptState) next(m *Member) error {
	at, found, err := m.effectIn(s.at.Index, m.catalog.Engine().Applied())
	if err == nil && found {
		s.until = at
	}
	return err
}

// effectIn returns the first time of the first effect behind an entry of the log, up to another
// one.
func (m *Member) effectIn(after, upTo uint64) (at Timestamp, found bool, err error) {
	group := m.store.opts.Group
	it, err := m.catalog.Engine().NewIter(storage.IdentRaft, entryKey(group, after+1), entryKey(group, upTo+1))
	if err != nil {
		return 0, false, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return 0, false, err
		}
		e, term, timed, err := timed(v)
		if err != nil {
			return 0, false, err
		}
		if !timed || !e.changes(term) {
			continue
		}
		n, err := e.documents()
		return e.time - Timestamp(max(n, 1)-1), err == nil, err
	}
	return 0, false, it.Err()
}

// expireLocked releases the states whose time is over.
func (k *KeptStates) expireLocked(now time.Time) {
	before := len(k.all)
	k.all = slices.DeleteFunc(k.all, func(s *keptState) bool {
		over := now.Sub(s.taken) >= k.window()
		if over {
			_ = s.s.Close()
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
	k.all = nil
}

// stop releases all states when the member ends.
func (k *KeptStates) stop() {
	k.drop()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	if k.timer != nil {
		k.timer.Stop()
	}
}

// AppendStatus writes how many states are kept, and counts of reads.
func (k *KeptStates) AppendStatus(b *bson.Builder) {
	k.mu.Lock()
	n := len(k.all)
	k.mu.Unlock()
	b.Int64("kept", int64(n)).Int64("taken", k.counts.taken.Load()).Int64("evicted", k.counts.evicted.Load()).
		Int64("expired", k.counts.expired.Load()).Int64("tooOld", k.counts.tooOld.Load())
}

// AwaitState is StateAt for a reader: it waits until the member has applied all up to
// the time, and until all that is prepared in the state is decided. Errors: also 246 if some
// of that was committed at or before the time, so that the state lacks it; the cause of ctx's
// end.
func (m *Member) AwaitState(ctx context.Context, t Timestamp) (*StateAt, error) {
	if t != 0 {
		if err := m.WaitTime(ctx, t); err != nil {
			return nil, err
		}
	}
	for {
		s, err := m.StateAt(t)
		if err != nil || len(s.prepared) == 0 {
			return s, err
		}
		whole, err := s.whole(ctx)
		if err == nil && whole {
			return s, nil
		}
		s.Close()
		switch {
		case err != nil:
			return nil, err
		case t != 0:
			return nil, mongoerr.New(mongoerr.SnapshotUnavailable, "Unable to read from a snapshot at %s: a transaction over several shards was committed at or before that time, and was applied here after it",
				bson.Timestamp(uint64(t)))
		}
	}
}

// whole waits until all that is prepared in the state is decided, and reports whether none of
// it was committed at or before the state's time.
func (s *StateAt) whole(ctx context.Context) (bool, error) {
	for _, key := range s.prepared {
		commit, known, err := s.kept.m.catalog.AwaitDecision(ctx, key)
		if err != nil || !known || commit != 0 && commit <= uint64(s.Time) {
			return false, err
		}
	}
	return true, nil
}
