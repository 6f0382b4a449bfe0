package repl

import (
	"go.etcd.io/raft/v3/raftpb"
)

// founded is where a new set begins: at an entry that nobody has, so that every
// other member gets the founder's data as a snapshot.
var founded = Position{Index: 1, Term: 1}

// Founder is where a set is initiated: a log and a machine.
type Founder interface {
	// Found makes a position the base of an empty log and the last entry of the
	// machine, with a hard state and the group's state, in one step that is durable on
	// return.
	Found(at Position, hard *raftpb.HardState, state []byte) error
}

// Found makes the data of this member those of a new set. Those of the others that
// vote from the beginning are empty, and get this one's. Log and machine hold no group.
// Errors: those of Config.Validate and of the disk.
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
