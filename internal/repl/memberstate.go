package repl

import "github.com/mayflydb/mayfly/internal/mongoerr"

// MemberState is what MongoDB calls the state of a member, in its numbers.
type MemberState int32

// The states that a member can be in.
const (
	StateStartup    MemberState = 0  // of no set yet
	StatePrimary    MemberState = 1  // accepts writes
	StateSecondary  MemberState = 2  // has the set's data, and serves reads
	StateRecovering MemberState = 3  // in maintenance, or receives a snapshot
	StateStartup2   MemberState = 5  // receives its first snapshot
	StateUnknown    MemberState = 6  // of another member: never heard from
	StateDown       MemberState = 8  // of another member: no longer heard from
	StateRemoved    MemberState = 10 // not in the configuration
)

var memberStateNames = map[MemberState]string{
	StateStartup: "STARTUP", StatePrimary: "PRIMARY", StateSecondary: "SECONDARY", StateRecovering: "RECOVERING", StateStartup2: "STARTUP2",
	StateUnknown: "UNKNOWN", StateDown: "(not reachable/healthy)", StateRemoved: "REMOVED",
}

// String returns the state as replSetGetStatus shows it.
func (s MemberState) String() string { return memberStateNames[s] }

// errNotReadable rejects reads on a member without data to serve, errRecovering those
// on one that will serve them again.
var (
	errNotReadable = mongoerr.New(mongoerr.NotPrimaryOrSecondary, "node is not in primary or recovering state")
	errRecovering  = mongoerr.New(mongoerr.NotPrimaryOrSecondary, "node is recovering")
)

// State returns the member's current state.
func (m *Member) State() *State {
	s := *m.replica.State()
	s.Changes += m.changes.Load()
	s.Writable = m.writable(&s)
	s.Member = m.stateOf(&s)
	s.Maintenance = m.maintenance.Load() > 0
	s.Receiving = m.net.Receiving(m.store.opts.Group)
	return &s
}

func (m *Member) stateOf(s *State) MemberState {
	receiving := m.door.closed() || m.net.Receiving(m.store.opts.Group) != nil
	switch {
	case s.Config == nil && receiving:
		return StateStartup2
	case s.Config == nil:
		return StateStartup
	case s.Removed:
		return StateRemoved
	case m.writable(s):
		return StatePrimary
	case receiving || m.maintenance.Load() > 0:
		return StateRecovering
	}
	return StateSecondary
}

// writable reports whether the member is primary and has stepped up in this term.
func (m *Member) writable(s *State) bool { return s.Primary && m.ready.Load() == s.Term }

// Writable implements Committer. Errors: ErrNotPrimary.
func (m *Member) Writable() error {
	if m.replica != nil && m.writable(m.replica.State()) { // nil: it is being opened
		return nil
	}
	return ErrNotPrimary
}

// Readable returns nil if the member serves reads: as primary, or as secondary.
// Errors: 13436.
func (m *Member) Readable() error {
	switch s := m.replica.State(); m.stateOf(s) {
	case StatePrimary, StateSecondary:
		return nil
	case StateRecovering:
		return errRecovering
	}
	return errNotReadable
}

// Applied returns the position of the last entry that the member has applied; zero
// while it does not belong to a set. It is not before any commit that has returned. The log and
// the data have all up to it; readers may have seen more (Shown).
func (m *Member) Applied() Position { return m.replica.Applied() }

// Shown returns the position of the last entry of which readers may have seen anything: that
// of Applied, or a later one that the set has committed and this member is about to apply. So
// the log and the data may lack it, until WaitTime says that they have it.
func (m *Member) Shown() Position {
	at := m.Applied()
	if s := m.catalog.Shown(); s.Index > at.Index {
		return Position{Index: s.Index, Term: s.Term, Time: Timestamp(s.Time)}
	}
	return at
}

// Changes returns the Changes of the member's State.
func (m *Member) Changes() int64 { return m.replica.State().Changes + m.changes.Load() }

// Changed returns a channel that is closed when Changes of the member's State
// rises.
func (m *Member) Changed() <-chan struct{} {
	m.changed.Lock()
	defer m.changed.Unlock()
	return m.changed.c
}

// tell announces a change of State that the replica does not know of.
func (m *Member) tell() {
	m.changes.Add(1)
	m.wake()
}

// wake wakes those who wait for a change.
func (m *Member) wake() {
	m.changed.Lock()
	defer m.changed.Unlock()
	close(m.changed.c)
	m.changed.c = make(chan struct{})
}
