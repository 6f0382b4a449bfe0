// Package command is the one path that every request takes: whatever front end it came
// through becomes a Request, and a Dispatcher turns it into a Response.
//
// A Command is a name, the declaration of its arguments (Fields) and a Handler. The
// Dispatcher looks the command up, parses its arguments as the server's IDL does,
// checks the client's privileges, session, concerns and time limit, registers the
// running Op where currentOp and killOp see it, runs the handler, and finishes the
// reply. What commands share beyond that lives here, too: the tables of cursors and of
// sessions, the server's parameters, the profiler and the command metrics.
//
// The transactions of sessions (transaction.go), and what a shard's part in a transaction
// over several does beyond that (participant.go), are here as well.
//
// Start reading at dispatch.go, then op.go and fields.go.
package command
