// Package console serves the console: a page in the binary, and the HTTP API that it
// calls. The API is a front end of the dispatcher: a request runs one database command
// with the rights of the session's user, and has no other way to the data.
//
// The sources of the page are in console/ at the top of the tree; make console builds them
// into assets/, which is embedded.
//
// Invariants:
//
//   - own-rights: the client of a connection has the session's user as its principal for
//     the time of a request, and nobody before and after.
//   - two-secrets: no call but login does anything without both the cookie and the token of
//     a session.
//   - bounded: sessions, bodies, replies in memory, connections, samples and streams have named bounds.
//
// docs/rfcs/0033-console.md has the reasons, and the attacks.
//
// The metrics of the last hour are sampled here (sampler.go), and sent to pages (live.go);
// changes of data are followed (tail.go).
//
// Start reading at server.go, then session.go and run.go.
package console
