// Package http1 serves HTTP/1.1 where a request costs little more than its two
// system calls. It calls an http.Handler, as net/http's server does, but
//
//   - what a client usually sends is read in place (simple.go); all else goes
//     to net/http's own parser,
//   - headers, request and buffers belong to the connection and are used again:
//     a handler keeps nothing of them when it returns,
//   - an answer is one write (response.go),
//   - whether the client is still there is asked only of a handler that takes
//     long (conn.go: watch), and deadlines are moved only when they come near.
//
// Not here: HTTP/2, Hijacker and Flusher, trailers, chunked answers.
//
// Start reading at server.go, then conn.go.
package http1
