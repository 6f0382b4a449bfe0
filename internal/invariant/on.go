//go:build invariants

package invariant

// Enabled reports whether a broken assertion panics. Expensive checks stand
// behind it: if invariant.Enabled { walk everything }.
const Enabled = true

func fail(message string) {
	count(message)
	panic("invariant broken: " + message)
}

// Held reports a lock that nobody holds, be it for reading or for writing.
func Held(lock interface {
	TryLock() bool
	Unlock()
}, message string) {
	if lock.TryLock() {
		lock.Unlock()
		fail(message)
	}
}

// HeldForWriting reports a lock that no writer holds.
func HeldForWriting(lock interface {
	TryRLock() bool
	RUnlock()
}, message string) {
	if lock.TryRLock() {
		lock.RUnlock()
		fail(message)
	}
}
