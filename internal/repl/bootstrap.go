package repl

import (
	"go.etcd.io/raft/v3/raftpb"
)

// founded is the position at which a new set begins: an entry that no member has, so
// that every other member gets the founder's data as a snapshot.
var founded = Position{Index: 1, Term: 1}

// Founder is where a set is initiated: a log and a machine.
type Founder interface {
	// Found makes a position the base of an empty log and the last entry of the
	// machine, with a hard state and the group's state, in one step that is durable on
	// return.
	Found(at Position, hard *raftpb.HardState, state []byte) error
}

// Found makes the data of this member the data of a new set. The other members that
// vote from the beginning are empty, and get this one's data. Log and machine hold no
// group yet. Errors: those of Config.Validate and of the disk.
func Found(f Founder, c *Config, clock *Clock) error {
	if err := c.Validate(); err != nil {
		return err
	}
	at := founded
	at.Time = clock.next()
	state, err := groupState{c, c.confState()}.encode()
	if err != nil {
		return err
	}
	return f.Found(at, &raftpb.HardState{Term: &at.Term, Vote: new(uint64), Commit: &at.Index}, state)
}
