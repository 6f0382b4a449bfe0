// Package client asks servers that speak MongoDB's protocol: it connects, says
// hello, logs in, runs commands and reads cursors. It is what the parts of a
// cluster ask each other with, and `mayfly demo`; applications have drivers.
//
// A Conn is one connection, for one goroutine at a time. Every call is bounded
// by its context: whose time is over, or who is cancelled, loses the connection,
// as an answer may still be on its way. There is no pool here, no retrying and
// no looking for another server: who asks knows what may be asked twice.
//
// Start reading at conn.go.
package client
