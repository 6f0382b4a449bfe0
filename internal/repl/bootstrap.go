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

// Found makes the data of this member the data of a new set, in which it is the only
// voter: the other members of the configuration join, and become voters one after the
// other. Log and machine hold no group yet. Errors: those of Config.Validate and of the
// disk.
func Found(f Founder, id uint64, c *Config, clock *Clock) error {
	c = c.clone()
	for i := range c.Members {
		c.Members[i].Joining = c.Members[i].Votes > 0 && c.Members[i].Raft != id
	}
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
