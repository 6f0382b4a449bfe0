//go:build !linux

package nemesis

import (
	"os"
	"testing"
)

// inside says that the test goes on in this process.
func inside(*testing.T) bool { return true }

// newNetwork is the best network that can be had.
func newNetwork(t *testing.T, n int) network { return newProxies(t, n) }

// logDirectory is where the output of members is kept when the test fails.
func logDirectory() string { return os.TempDir() }
