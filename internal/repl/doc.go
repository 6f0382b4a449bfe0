// Package repl makes the writes of a process take effect: on a standalone in
// the local engine alone, on a member of a replica set through the log of a
// replicated group. Callers of a Committer (commit.go) see no difference.
//
// # A group
//
// Group (group.go) drives one raft group over go.etcd.io/raft: a state machine
// without goroutines, timers or sockets, so that a simulation can step it in
// virtual time. Tick, Step, Propose and ReadIndex are what happens to it; Round
// (round.go) is all it does about them:
//
//	propose → ready → [leader: send, apply] → persist → send → apply → advance
//
// Its parts are behind small interfaces: the Log (log.go), the Machine that
// entries change and the Outbox that messages leave by (machine.go).
//
// In production a Replica (replica.go) is the goroutine that owns a Group, a Store
// (store.go) its log and machine in one engine, and a Network (network.go) the way
// to other processes.
//
// # Invariants
//
//   - log-first: what a message promises is on this member's disk before the
//     message leaves (the journal's sync); only a leader's appends go ahead.
//   - one-step: an entry's effects and its index become visible and durable in one
//     step, so to apply again after a crash begins where the machine is.
//   - own-term: a member serves as primary only after an entry of its own term
//     is applied, and an entry that was evaluated in another term does nothing.
//   - no-hole: a proposal that raft drops fails at once with all that is queued
//     behind it, and with all that was evaluated before the drop was known.
//   - time-rises: the timestamps of entries rise with their index.
//   - kept-log: the log is never truncated past what is applied durably.
//   - one-switch: a snapshot's data and log become this member's in one rename.
//   - own-vote: hard state, vote and member-local keyspaces never travel.
//
// Start reading at group.go, then round.go.
package repl
