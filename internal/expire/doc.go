// Package expire is the TTL monitor: it removes expired documents in the
// background, by TTL indexes, by the expireAfterSeconds of clustered and
// time-series collections, and by last writes with each document's own ttl.
// (Manual: "TTL Indexes"; Cosmos DB: "Time to Live".)
//
// A pass (pass.go) repeats sub-passes until nothing is left that was due. A
// sub-pass visits every rule in turn, each within limits of documents and
// time, so that no index starves another, and comes back to those that hit a
// limit. The monitor (monitor.go) wakes for a pass every ttlMonitorSleepSecs,
// and between passes for due checks (duecheck.go). Rules that archive are visited by
// archivers instead (archivers.go), so that no pass waits for a store; what was archived is
// forgotten by archiveforget.go.
//
// Where a collection keeps its documents by windows of expiry, a visit drops
// those that are wholly due as ranges first (windows.go), and a sweeper removes
// the index entries that they leave.
//
// Independent of that, it seals open measurements of time-series collections whose
// bucket's span is over (idlesealing.go).
//
// # Invariants
//
//   - never-early: a document that is removed singly is due by the rule at the
//     instant of the visit, which is checked under its lock; one that is
//     removed with its window is due by catalog's invariant window-due.
//   - archived-first: no document leaves by a rule that archives unless the unit that removes it
//     makes the row of an object that has it, byte for byte.
//   - archived-once: a version of a document is in one row's object at most.
//   - gated: while writes are locked (fsyncLock) nothing is removed, and no
//     pass is counted.
//   - brake (package catalog): after the reply to DDL or a change of a parameter that
//     keeps documents from expiring, no such document is removed.
//   - leased: what a shard has of a budget that it shares with others ends no later than the
//     config servers count it as given: its time runs from before it asked.
//   - oldest-first: a visit removes in the order of the instants, ranges first.
//
// A visit (removal.go) works with a remover of documents.go or buckets.go, which
// deletes by batcheddelete.go or bucketexpiry.go, or, where the rule archives, by archiving.go; governor.go and yielding.go make it
// yield to clients. Start reading at monitor.go.
package expire
