// Package client asks servers that speak MongoDB's protocol: it connects, says
// hello, logs in, runs commands and reads cursors. It is what the parts of a
// cluster ask each other with, and `mayfly demo`; applications have drivers.
//
// A Conn is one connection, for one goroutine at a time. Every call is bounded
// by its context: whose time is over, or who is cancelled, loses the connection,
// as an answer may still be on its way.
//
// A Set is a replica set: it watches over its members (set.go), keeps connections to
// each (member.go), sends a call to one that may answer it (readpreference.go), and
// again where that is sure to do no harm: who asks says what may be asked twice. The
// cluster time that all Sets have heard of is a Clock (clock.go).
//
// Start reading at conn.go, then set.go.
package client
