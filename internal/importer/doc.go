// Package importer copies a living MongoDB or Mayfly into another one (mayfly import --from;
// docs/rfcs/0035-moving-in.md). It is a client of both.
//
// The target has what an import knows, in the database mayfly_import: who imports (state.go), and
// how far each collection is, by the UUID that it has at the source (row.go). So an importer that
// is killed anywhere has a successor that goes on.
//
// # Invariants
//
//   - one-importer: no write of an importer reaches the target after a later one has claimed it, but
//     for what lay in a connection for as long as a server knows a session (hold.go).
//   - token-behind: the stored token is never ahead of an event that was not applied by a
//     majority, and a row's last _id never ahead of a document.
//   - copy-behind-events: when an event is applied, no document is on its way to its collection
//     that was read before the event.
//   - nothing-expires-early: the target removes nothing by a rule before cut-over.
//
// Start reading at importer.go, then state.go, copy.go, stream.go and cutover.go.
package importer
