// Package testkit starts real servers and routers for tests: the binary itself, as a
// separate process, on a free port and an empty data directory.
//
// Start reading at server.go.
package testkit
