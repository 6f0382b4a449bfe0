//go:build !invariants

package invariant

// Enabled says whether a broken assertion panics. Expensive checks stand
// behind it: if invariant.Enabled { walk everything }.
const Enabled = false

func fail(message string) { count(message) }
