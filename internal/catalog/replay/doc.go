// Package replay proves in tests that an effect says all: what a catalog commits
// is applied, from its encoding, to a second engine that was as the first one in
// the beginning, and to a third one that begins in the middle from a checkpoint.
// Both must then have the same bytes and the same live state, and who reads the
// operations the same documents.
//
// Start reading at recorder.go.
package replay
