// Package bson reads and writes BSON without decoding it: a document is its
// bytes (Doc), a value is a type and a slice of those bytes (Value). It holds
// the server's comparison order, the numeric tower with decimal128, dotted
// paths, validation, and the printed forms of values in messages.
//
// Nothing here copies unless it says so, and no method panics on bytes that
// passed Validate.
package bson
