// Package storage is the engine: ordered keyspaces on one Pebble store.
// It is the only package that imports Pebble.
//
// # Layout
//
// A keyspace has a number, its Ident; the store's key is the Ident, in an
// order-preserving varint, and then the keyspace's own key (ident.go). What a
// keyspace holds is its owner's business. Idents below FirstIdent are the
// engine's and the catalog's; a dropped keyspace is one range tombstone. All keys
// and values, of all owners, stand in docs/format.
//
// # Writing
//
// A Unit (unit.go) is one atomic batch of writes with the record locks it took
// (lock.go). Commit returns when the operating system has the unit, so that
// the death of the process loses nothing acknowledged; the journal
// (journal.go) makes it durable against the death of the machine within the
// commit interval, or at once for Journaled commits, many at a time.
//
// The control file (control.go) records how far each log and the manifest were
// synced, so that a start can tell a torn end from damage (damage.go): where data that
// the store once had would be missing, Open changes nothing and refuses. Examine reads
// the files of a store that is not open, and continues behind damage (examine.go,
// salvage.go). A store that is open ReadOnly keeps its changes in memory (overlay.go), and one
// that is marked as unfinished is not opened at all (unfinished.go).
//
// # Reading
//
// A Snapshot is one state of the store. Snapshots with no commit between them share a
// view (view.go) and reuse its iterators, since making an iterator costs more than most
// reads with it. A LaidState is an earlier state with later changes laid over it (laid.go).
// Once there were no writes for a while, idle compaction moves everything
// to the last level of tables (idlecompaction.go), so that a read looks into one level;
// tables of which much has been deleted are rewritten (reclaim.go).
//
// # Invariants
//
//   - prefix: after a crash the store holds a prefix, in commit order, of the
//     committed units, and every Journaled one. Of later units with a place in the log
//     of a group, which are applied again, it may have what was stored apart (apart.go).
//   - control-true: what the control file says of a file holds for it: it was
//     synced so far, and a start needs it. A start that finds less refuses.
//   - wal-closed: a log file that Pebble has closed is durable, so only the
//     newest can be dirty.
//   - lock-order: a unit waits for a lock only if it is above all that it
//     holds; so units never deadlock. Nobody waits for a fixed unit inside a gate
//     or with a lock, and a fixed unit waits for no lock.
//   - first-committer: a fixed unit takes no lock under which another unit has
//     committed since its state was taken (fixed.go).
//
// Start reading at engine.go, then unit.go.
package storage
