// Package wire is MongoDB's wire protocol, seen from both ends: it turns the
// bytes of a connection into messages and messages into bytes, and knows
// nothing of what a command means.
//
// A message goes through three forms. A Frame is one whole message as bytes,
// its length checked (frame.go); Frame.Decompress opens OP_COMPRESSED
// (compress.go); Parse gives the Message (message.go): the body and the
// document sequences of an OP_MSG (msg.go), or the document of the OP_QUERY
// that drivers still use to greet (query.go). Message.Append is the way back.
//
// Who owns the bytes: a Frame is never used twice, so what Parse finds in it
// may be kept without a limit, for example by a cursor. Buffers that
// the writer fills come from a pool and never leave this package.
//
// What a stranger may send is bounded: MaxMessageSize for a message before and
// after decompression, MaxSequences for its sections, bson.MaxMessageDepth for
// the nesting, and a little more in an answer. Memory for a message is taken as its bytes arrive, not as its
// header promises. An *Error says what the connection has to do: answer, or
// answer and close, or close.
//
// Start reading at message.go.
package wire
