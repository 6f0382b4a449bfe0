package repl

import (
	"go.etcd.io/raft/v3/raftpb"
)

// founded is where a new set begins: at an entry that nobody has, so that every
// other member gets the founder's data as a snapshot.
var founded = Position{Index: 1, Term: 1}

// Founder is what Found needs of a Log.
type Founder interface {
	Log
	// SetBase makes a place the base of an empty log, with a hard state.
	SetBase(base Position, hard *raftpb.HardState) error
}

// Found makes the data of this member those of a new set of one. Log and machine
// hold no group. Errors: those of Config.Validate and of the disk.
func Found(l Founder, m Machine, c *Config, clock *Clock) error {
	if err := c.Validate(); err != nil {
		return err
	}
	at := founded
	at.Time = clock.next()
	state, err := groupState{c, c.confState()}.encode()
	if err != nil {
		return err
	}
	// The state comes last: a member that has it is a member of the set.
	if err := l.SetBase(at, &raftpb.HardState{Term: &at.Term, Vote: new(uint64), Commit: &at.Index}); err != nil {
		return err
	}
	if err := m.Apply(at, Change{State: state}); err != nil {
		return err
	}
	return l.Append(nil, nil, true)
}
