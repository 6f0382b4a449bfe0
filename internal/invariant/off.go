//go:build !invariants

package invariant

// Enabled reports whether a broken assertion panics. Expensive checks stand
// behind it: if invariant.Enabled { walk everything }.
const Enabled = false

func fail(message string) { count(message) }

// Held does nothing here: to try a lock takes it for a moment, which others
// would notice.
func Held(interface {
	TryLock() bool
	Unlock()
}, string) {
}

// HeldForWriting does nothing here, as Held.
func HeldForWriting(interface {
	TryRLock() bool
	RUnlock()
}, string) {
}
