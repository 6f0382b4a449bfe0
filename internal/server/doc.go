// Package server is the process: it opens what the parts need, starts them in
// order, accepts clients, and at shutdown stops everything in the reverse
// order. It knows connections, messages and logs, and no command.
//
// The order of start (server.go): log; data directory and engine (the lock on
// the directory comes first: the commonest mistake after a port in use);
// addresses are bound before the engine opens, so that a port in use costs no
// recovery, and accepted from last. Stop: no more connections; running
// operations may end until a bound, then they are interrupted; components in
// the reverse order of their start; engine; log.
//
// A connection is one goroutine (connection.go): read a message, dispatch it,
// write the reply, so replies leave in the order of their requests. Another
// goroutine for all connections looks, while an operation runs long, whether
// its client is still there (watch.go), and another one holds Go's collector to
// what suits a heap that is mostly the cache (heap.go). The process of a member whose disk hangs
// ends (diskwatch.go), and a server that was restored removes what is due before it serves
// (restored.go).
//
// Who may use the admin port is in adminaccess.go, where the audit log is written in audit.go.
//
// What speaks TLS is told by its first bytes, and decrypted before anything else is looked at
// (secure.go).
//
// Logs are MongoDB's JSON lines on log/slog (log.go). Attributes of the names
// c, id, ctx and tags become the fields of the line, all others its attr:
//
//	log.Info("Index build: starting", "c", "INDEX", "id", 20438, "namespace", ns)
//
// slog.LevelDebug is D1, each level below one more, to D5; LevelFatal is F. A
// value that is a bson.Doc prints as extended JSON.
//
// Invariants:
//
//   - one-reply: every request that waits for an answer gets exactly one, or
//     its connection ends (exhaust streams: exactly one without moreToCome).
//   - contained: whatever a client sends ends at most its own connection.
//   - bounded: connections, the memory of a waiting connection, the lines kept
//     for getLog, and the time that stopping takes have named bounds.
//
// Start reading at server.go, then connection.go.
package server
