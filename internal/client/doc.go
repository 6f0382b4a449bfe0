// Package client is a client of MongoDB's wire protocol: it connects, logs in, runs
// commands and reads cursors. The processes of a cluster talk to each other with it, and
// `mayfly demo`, `mayfly backup` and `mayfly run` use it; applications use drivers. At the first
// hello they compare which protocol they speak (protocol.go).
//
// A Conn is one connection, for one goroutine at a time. Every call is bounded by its
// context. A call that times out or is cancelled breaks the connection, as its reply may
// still arrive.
//
// A Set is a replica set: it monitors the members (set.go), pools connections to each
// (member.go), sends a call to an eligible member (readpreference.go), and retries it if
// the caller has marked it as idempotent. Sets share a Clock, the cluster time (clock.go).
//
// A connection string is parsed in uri.go.
//
// Start reading at conn.go, then set.go.
package client
