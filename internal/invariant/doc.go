// Package invariant is where the code says what must hold. A broken assertion
// is our bug, never the user's: under the build tag invariants it panics at
// once, so tests stop where the bug is; in a released binary it is counted,
// reported to the log with its stack, and the caller goes on to answer with an
// error.
//
// Start reading at on.go (what tests run) and off.go (what people run).
package invariant
