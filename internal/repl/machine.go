package repl

import (
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Machine is what a group's entries change: the data of a member. Its owner is the
// group's goroutine.
type Machine interface {
	// Applied returns the index of the last entry that the machine holds, and the state
	// of the group that was stored last; 0 if there is none yet.
	Applied() (index uint64, state []byte, err error)
	// Apply makes the changes of entries visible, which follow each other in the log, and
	// stores their indexes with them: in one atomic step, or in several of which each has
	// the next ones (invariant one-step). One with a State comes alone. An error is fatal:
	// a member cannot reject what the set has committed.
	Apply(run []Change) error
	// Install makes the snapshot that was received last the machine's content, and its
	// position the log's base, in one step (invariant one-switch), with this member's
	// hard state instead of the sender's. Applied then describes the new content.
	Install(base Position, hard *raftpb.HardState) error
}

// Change is what an entry does to a machine; nothing, where there is but a position.
type Change struct {
	At      Position
	Payload []byte // of a write
	Part    []byte // of a chain
	Chain   []byte // payload of the last entry of a chain
	State   []byte // the group's new state, where it is not nil
	// Own is what the proposer passed along with the payload, in the process that
	// proposed it; nil in all others.
	Own any
}

// Report is what each frame says in addition to its message.
type Report struct {
	Applied Position  // the last entry that the sender's machine holds
	Wanted  Timestamp // a cluster time that a client of the sender waits for; 0 for none
	// Frozen says that the sender does not stand for election now, or could not write as
	// primary: nobody hands over to it.
	Frozen bool
	// Asks says that somebody at the sender, which leads, waits for what others hold:
	// they report each round that applies something at once, not only with their next
	// frame.
	Asks bool
}

// Outbox sends messages to other members. It does not block, and may lose messages:
// raft sends them again.
type Outbox interface {
	// Send sends a message or, where m is nil, the report alone.
	Send(to uint64, m *raftpb.Message, r Report)
	// SendSnapshot starts sending this member's data to m's receiver, followed by m.
	// Group.ReportSnapshot must be called with the outcome.
	SendSnapshot(m *raftpb.Message)
}

// groupState is what the machine stores for the group: the set's configuration and
// raft's, which change together.
type groupState struct {
	config *Config
	conf   *raftpb.ConfState
}

// encode returns the length of the raft part as a varint, that part, and the
// document.
func (s groupState) encode() ([]byte, error) {
	conf, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.conf)
	if err != nil {
		return nil, err
	}
	b := appendBytes(nil, conf)
	if s.config != nil {
		b = append(b, s.config.Doc()...)
	}
	return b, nil
}

func decodeGroupState(b []byte) (s groupState, err error) {
	s.conf = &raftpb.ConfState{}
	if len(b) == 0 {
		return s, nil
	}
	conf, rest, ok := cutBytes(b)
	if !ok {
		return s, errDamagedState
	}
	if err := proto.Unmarshal(conf, s.conf); err != nil {
		return s, err
	}
	if len(rest) > 0 {
		s.config, err = ParseConfig(rest)
	}
	return s, err
}
