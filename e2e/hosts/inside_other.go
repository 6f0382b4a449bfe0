//go:build !linux

package hosts

import (
	"os"
	"testing"
)

// Inside says that the test goes on in this process.
func Inside(*testing.T) bool { return true }

// newNetwork is the best network that can be had.
func newNetwork(t *testing.T, n int) Network { return newProxies(t, n) }

// LogDirectory is where the output of members is kept when the test fails.
func LogDirectory() string { return os.TempDir() }
