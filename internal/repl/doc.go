// Package repl commits the writes of a process: on a standalone to the local engine,
// on a member of a replica set through the log of a replicated group. Callers of a
// Committer (commit.go) see no difference.
//
// # A member
//
// Member (member.go) is the process as a member of its replica set: the Committer of its
// catalog, and what commands need of the set. It initiates a set and reconfigures it
// (bootstrap.go, reconfigure.go), hands over (handover.go), reports its state
// (memberstate.go, health.go), and replaces a member that has lost its disk (replace.go).
//
// A state at a time is kept, or made of one that is kept and the log (keptstates.go). A copy of
// the data (copy.go) and entries of the log become other data by a Restoration (restoration.go).
//
// Operations use its data inside the door (door.go), which closes while a snapshot
// replaces the data. The oplog (oplog.go) is a view of the log as the documents that
// package oplog makes.
//
// # A group
//
// Group (group.go) drives one raft group over go.etcd.io/raft: a state machine without
// goroutines, timers or sockets, so that a simulation can step it in virtual time. Tick,
// Step, Propose and ReadIndex are its inputs; Round (round.go) handles them, always in
// this order:
//
//	propose → ready → [leader: send, apply] → persist → send → apply → advance
//
// Its parts are behind small interfaces: the Log (log.go), the Machine that entries
// change and the Outbox for messages (machine.go).
//
// In production a Replica (replica.go) is the goroutine that owns a Group, a Store
// (store.go) its log and machine in one engine, and a Network (network.go) the connection
// to other processes, which prove that they are members by a key or their certificates
// (keycredentials.go, membercredentials.go).
//
// # Invariants
//
//   - log-first: what a message promises is on this member's disk before the
//     message leaves (the journal's sync); only a leader's appends go ahead.
//   - one-step: an entry's effects, alone or with those of its neighbours, and the index
//     become visible and durable in one step, so that after a crash applying resumes
//     where the machine is.
//   - one-applier: entries are applied one run after the other. The last entry of a chain is
//     applied beside the group, which ticks, sends and stores meanwhile, and applies nothing,
//     takes no snapshot and does not campaign until that is done.
//   - own-term: a member serves as primary only after an entry of its own term
//     is applied, and an entry that was evaluated in another term does nothing.
//   - no-hole: a proposal that raft drops, or that fails before, fails immediately, and
//     so does everything queued behind it or evaluated before that was known. So an
//     operation that is evaluated on a write that waits for its commit succeeds or fails
//     with it.
//   - time-rises: the timestamps of entries rise with their index.
//   - cause-first: what another part of the cluster does because of an entry has a later time,
//     in its log, so what all logs have up to one time is a state in which nothing lacks its
//     cause (docs/rfcs/0030-backup.md).
//   - kept-log: the log is never truncated past what is applied durably.
//   - one-switch: a snapshot's data and log become this member's in one rename.
//   - own-vote: hard state, vote and member-local keyspaces never travel.
//
// Start reading at member.go; for the engine at group.go, then round.go.
package repl
