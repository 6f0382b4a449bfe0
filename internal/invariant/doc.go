// Package invariant is where the code says what must hold. A broken assertion
// is our bug, never the user's. Under the build tag invariants, which
// `make test-unit` sets, it panics at once, so tests stop where the bug is. In a
// released binary it is counted, reported to the log once for each place, and
// the caller goes on to answer with an error if it can.
//
// A function whose comment says REQUIRES: checks that with this package. A name
// in a list of "# Invariants" is cited where the code upholds it. Tests of
// internal/lint hold both.
//
// Start reading at on.go (what tests run) and off.go (what people run).
package invariant
