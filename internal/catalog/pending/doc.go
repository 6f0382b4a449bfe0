// Package pending has documents as writes leave them whose place in the log of a
// replica set is decided, and which are not applied yet. On them the next write of the
// same document is evaluated, so that it need not wait for a majority to have the one
// before (docs/rfcs/0021-hot-documents.md).
//
// It knows nothing of stores and locks: keys and documents are bytes. Who holds the
// lock of a document adds its Version before the lock is handed over, and reads the
// newest one after the lock was taken.
//
// # Invariants
//
//   - same-evaluation: a version is read by who is evaluated in the very term and
//     epoch of the write that made it. Where that write is refused, so are all later
//     ones of the same term and epoch.
//   - newest: of several versions of a document only the newest is read. Where it is
//     refused, those before it can only be waited for.
//
// Start reading at table.go.
package pending
