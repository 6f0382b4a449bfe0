// Package stream carries many connections of MongoDB's protocol over one socket, between
// the processes of a cluster. A system call costs more than most requests do, and here one
// sends or receives what several connections have for each other.
//
// The side that dials sends Preface and then frames, the other one frames at once: the
// number of the stream (uint32), the length of what follows (uint32, little-endian, at most
// MaxFrame), and that many bytes of the stream. A frame without bytes ends the stream. Only
// the side that dials opens streams, by a frame with the length 1<<32-1 that has no bytes,
// in the order of their numbers, which are not used again.
//
// A Session is one side of the socket (session.go), a Stream is one connection, a net.Conn
// (stream.go). What has to wait for memory, such as large requests, has no place here:
// who does not read from his stream may hold up the others.
//
// # Invariants
//
//   - streams apart: the end of one stream, by either side and in any state, leaves the
//     others as they are; the end of the socket ends all.
//   - bounded: what a Session keeps unsent is bounded by maxUnsent and the frame that came
//     on top of it, what it keeps unread of a Stream by maxUnread and a frame.
package stream
