// Package expire is what leaves by itself: the background monitor that removes
// documents whose time is over, by TTL indexes and by the expireAfterSeconds
// of clustered collections. (Manual: "TTL Indexes".)
//
// A pass (pass.go) repeats sub-passes until nothing is left that was due. A
// sub-pass visits every rule in turn, each within limits of documents and
// time, so that no index starves another, and comes back to those that hit a
// limit. The monitor (monitor.go) wakes for a pass every ttlMonitorSleepSecs.
//
// Where a collection keeps its documents by windows of expiry, a visit drops
// those that are wholly due as ranges first (windows.go), and a sweeper removes
// the index entries that they leave.
//
// Beside that, the open measurements of time-series collections whose bucket's
// span is over are sealed (resting.go).
//
// # Invariants
//
//   - never-early: a document goes only if, under its lock, a date in it lies
//     at or before the instant of the visit less the rule's seconds.
//   - gated: while writes are locked out (fsyncLock) nothing is removed, and no
//     pass is counted.
//   - oldest-first: a visit removes in the order of the dates.
//
// Start reading at monitor.go.
package expire
