// Package clients drives Go programs of strangers against a running server, whose
// address is in MAYFLY_URI: each sees documents leave. It is a module of its own,
// so that what they need is no part of Mayfly's go.mod. e2e/run calls it.
package clients
