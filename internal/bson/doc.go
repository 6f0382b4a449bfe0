// Package bson reads and writes BSON without decoding it: a document is its
// bytes (Doc), a value is a type and a slice of those bytes (Value). On them it
// builds the server's comparison order (Compare), the numeric tower with
// decimal128 (Add, ToDecimal, ExactInt64 …), validation (Validate), the text of
// values in messages (Doc.String) and Extended JSON (ParseJSON, AppendJSON).
// Start reading at Value, then Doc; Builder makes new documents.
//
// Nothing here copies unless it says so, and no method panics on bytes that
// passed Validate.
package bson
