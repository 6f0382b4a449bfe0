// Package catalog is the live collections of a process: their durable
// descriptors, and every change to documents and their index entries.
//
// A Collection is an immutable descriptor with shared live state behind it
// (counts, gate, dropped flag); DDL publishes new descriptors in one atomic
// step, and Lookup takes no lock. A Unit groups the writes of one commit.
//
// # Layout
//
// Records: the collection's ident, record key → the document's bytes. The
// record key is opaque to other packages; by default it is the key string of
// _id, with the window of expiry in front of it in collections that have
// windows (windows.go). Index entries: the index's ident, key string ‖ record
// key → entry value (entry.go). The index on _id of a collection that is
// clustered by _id is the records themselves and has no entries.
//
// Measurements of a time-series collection that are in no bucket: the
// collection's Open ident (opentable.go).
//
// # Invariants
//
//   - entries: a document and its entries in all indexes, also those being
//     built, change in one unit.
//   - latest: a writer uses the newest descriptor of its collection, and DDL
//     waits until no writer uses an older one (gate).
//   - window-due: a document in a window of expiry has an instant within it or
//     before it, or is counted there as stayed; so what goes with a window is due.
//   - multikey-first: an index shows a multikey path before a document that
//     needs it is visible. So a reader takes its snapshot first and reads
//     multikey state after it.
//   - open-locked: the open measurements of a source change only under the
//     lock of its key.
//   - open-seen: the table of sources tells of open measurements before they
//     are visible, and forgets them after they are gone; snapshot and table are
//     taken together.
//
// Start reading at collection.go, then unit.go.
package catalog
