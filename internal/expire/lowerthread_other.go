//go:build !linux

package expire

// lowerThread does nothing: only Linux has a priority for each thread that
// anybody may lower.
func lowerThread() {}
