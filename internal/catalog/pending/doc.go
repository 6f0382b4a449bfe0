// Package pending holds documents as they are after writes whose order in the log of a
// replica set is decided, but which are not applied yet. The next write of the same
// document is evaluated on them, so it need not wait until a majority has the write
// before (docs/rfcs/0021-hot-documents.md).
//
// It knows nothing of stores and locks: keys and documents are bytes. The holder of
// a document's lock adds its Version before it hands the lock over; the next holder
// reads the newest one after it has taken the lock.
//
// # Invariants
//
//   - same-evaluation: a version is read only by an evaluation of the same term and
//     epoch as the write that made it. Where that write is refused, so are all later
//     ones of the same term and epoch.
//   - newest: of several versions of a document only the newest is read. Where it is
//     refused, those before it can only be waited for.
//
// Start reading at table.go.
package pending
