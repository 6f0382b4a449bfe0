// Package webserver serves an http.Handler with fasthttp, which costs a request
// about half of what net/http's server does (docs/perf). What a handler gets
// of a request and gives of an answer is memory that is used again: it keeps
// nothing of it when it returns.
//
// Not here: HTTP/2, Hijacker and Flusher, and trailers. A request's context is
// that of its connection: whoever makes it (Server.ConnContext) ends it, too, when
// the client is gone.
//
// Start reading at server.go.
package webserver
