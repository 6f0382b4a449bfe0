// Package replay proves in tests that effects are complete: what a catalog
// commits is applied, from its encoding, to a second engine that began in the
// same state, and to a third one that begins in the middle from a checkpoint.
// Both must then have the same bytes and the same live state, and a reader of
// the operations the same documents.
//
// Start reading at recorder.go.
package replay
