// Package catalog holds the live collections of a process: their durable
// descriptors, and every change to documents and their index entries.
//
// A Collection is an immutable descriptor with shared live state behind it
// (counts, gate, dropped flag); DDL publishes new descriptors in one atomic
// step, and Lookup takes no lock. A Unit groups the writes of one commit.
//
// # Layout
//
// Records: the collection's ident, record key → the document's bytes. The
// record key is opaque to other packages; the collection's layout makes it
// (package layout). Index entries: the index's ident, key string ‖ record
// key → entry value (entry.go). The index on _id of a collection that is
// clustered by _id is the records themselves and has no entries.
//
// A system collection whose documents are made from other records
// (local.oplog.rs, config.transactions) has no ident: virtual.go,
// transactions.go.
//
// A transaction of several statements (transaction.go) writes into a draft, a
// Unit that is never committed, and makes its writes again when it commits.
//
// Measurements of a time-series collection that are in no bucket: the
// collection's Open ident (package measurements).
//
// # Invariants
//
//   - entries: a document and its entries in all indexes, also those being
//     built, change in one unit.
//   - latest: a writer uses the newest descriptor of its collection, and DDL
//     waits until no writer uses an older one (gate).
//   - window-due: a document in a window of expiry has an instant within it or
//     before it, or the window is marked as stale. So everything that is removed
//     with a window that is not stale is due.
//   - one-place: in any state of the store a document is in one half of a layout.Relay,
//     and the index on _id has an entry for it if that half is the windows.
//   - old-still: during a relayout a document in the half that documents leave is as it
//     was when the relayout began. A writer of the document moves it to the other half.
//     So what was found due there stays due while the rule is unchanged.
//   - exact-window: where each document that is removed with a range is listed, the
//     list has exactly the documents that the drop removed, each once.
//   - read-window: windows that were read, and are dropped because of what was read, have not
//     been written to in between.
//   - fenced: a unit writes into a sharded collection only while its statement may, by
//     what the collection's descriptor says then; a change of that waits until nobody is
//     inside.
//   - yes-binds: a prepared transaction has all locks and is inside all gates that its commit
//     needs, until it is decided (prepare.go). Only its coordinator decides.
//   - locks-first: a new primary serves nothing before it has the locks of all that is
//     prepared, and one that steps down lets go of them before it applies anything else.
//   - multikey-first: an index shows a multikey path before a document that
//     needs it is visible. So a reader takes its snapshot first and reads
//     multikey state after it.
//   - effect: what a unit changes in memory changes when its effect is applied, by a
//     note of it, and in no other way. So another member that applies the same
//     effects has the same state.
//   - once: what a retryable statement does, and the record of it, are one effect,
//     evaluated in the term in which the records were read.
//
// On a member of a replica set updates are evaluated on writes that are not applied yet:
// package pending, hotdocument.go. What sessions have executed: execution.go, package
// retryable.
//
// Start reading at collection.go, then unit.go.
package catalog
