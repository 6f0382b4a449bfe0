// Package expire is what leaves by itself: the background monitor that removes
// documents whose time is over, by TTL indexes, by the expireAfterSeconds of
// clustered and time-series collections, and by last writes with each
// document's own ttl. (Manual: "TTL Indexes"; Cosmos DB: "Time to Live".)
//
// A pass (pass.go) repeats sub-passes until nothing is left that was due. A
// sub-pass visits every rule in turn, each within limits of documents and
// time, so that no index starves another, and comes back to those that hit a
// limit. The monitor (monitor.go) wakes for a pass every ttlMonitorSleepSecs,
// and between passes for due checks (duecheck.go).
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
//   - never-early: a document that goes by itself goes only if it is due by the
//     rule at the instant of the visit, under its lock; one that goes with its
//     window, by catalog's invariant window-due.
//   - gated: while writes are locked out (fsyncLock) nothing is removed, and no
//     pass is counted.
//   - brake (package catalog): after the reply of what keeps documents from going, by
//     DDL or by a parameter, none goes that would have otherwise.
//   - oldest-first: a visit removes in the order of the instants, ranges first.
//
// removal.go is what a visit does, with a remover of documents.go or buckets.go, which
// deletes as batcheddelete.go or bucketexpiry.go does; governor.go and yielding.go are
// how it lets clients go first. Start reading at monitor.go.
package expire
