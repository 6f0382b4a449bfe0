// Package nemesis disturbs a replica set of three real processes while real drivers use
// it, and then judges by what the drivers were answered whether the set kept its word.
// It has tests only.
//
// # Hosts
//
// Each member is a host of its own (package e2e/hosts), so the ways between members, and
// between a member and the clients, can be cut, delayed or made to lose packets, in each
// direction.
//
// # Disturbances
//
// schedule_test.go makes a schedule of a seed and prints it: what, when, how long, and to
// whom: the primary or another one of that moment. `-nemesis.seed` repeats the schedule;
// what the kernel does meanwhile nobody can repeat. The kinds are in disturbance_test.go:
// kill -9, SIGSTOP, SIGTERM, cuts one way and both, delay, loss, step-downs,
// priorities that change, and
//
//   - a full disk (package e2e/hosts): each member has one of its own. Its process may end by itself then, and is started again;
//   - a lost disk: the directory is emptied, and the member comes back with nothing;
//   - a clock that jumps (clock_linux_amd64_test.go): a process gets a clock of its own, by
//     a few instructions beside the function of the vDSO that reads the wall's time. The
//     server is the one that is shipped: it has no code for that, and all that it
//     reads the time for sees the jump.
//
// # Judgement
//
// Each workload notes what it was answered, and judges at the end, when the set has come
// to rest:
//
//   - tallies (tally_test.go): counters that many clients of three drivers increment. What
//     was acknowledged counts, and nothing counts twice.
//   - registers (register_test.go): reads, writes, and compare and set by findAndModify
//     are linearizable (porcupine; what was not answered may have happened, or may yet).
//   - lists (list_test.go): appends to several lists of a document, and what
//     findAndModify returns of before, are strictly serializable.
//   - transactions (transaction_test.go): appends to lists in several documents, and reads of
//     them, in multi-document transactions are a history of snapshot isolation: no G0, G1a,
//     G1b, G1c, G-single, and no G2 but write skew.
//   - inserts (insert_test.go): what was acknowledged is there, and no insert meets itself.
//   - a queue (queue_test.go): a job is given to one client at the most.
//   - causal sessions (causal_test.go): who writes on the primary reads it on secondaries.
//   - expiry (expiry_test.go): no session goes before its time, all go in the end, each is
//     told once in the oplog of every member, and only primaries count removals.
//
// Then all members have the same, byte for byte (dbHash), `validate` finds nothing,
// `mayfly verify` finds nothing in what the processes leave on their disks, and no process
// has ended that nobody killed (rest_test.go, member_test.go).
//
// # Strangers
//
// strangers_test.go speaks to members as others would that are none: garbage, frames of
// other sets, versions, directories, and times that cannot be, a member of another set
// at the host of one of this set, and a member whose clock is two years off. Each is
// refused, the log tells of it, and nothing changes.
//
// Start reading at nemesis_test.go.
package nemesis
