// Package testkit starts real servers for tests: the binary itself, as a
// process of its own, on a free port and an empty data directory.
//
// Start reading at server.go.
package testkit
