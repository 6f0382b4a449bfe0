// Package testkit starts real servers and routers for tests: the binary itself, as a
// separate process, on a free port and an empty data directory; and an authority that signs
// certificates for them (authority.go).
//
// Start reading at server.go.
package testkit
