package hosts

import (
	"os/exec"
	"testing"
)

// Network is hosts, and what is between them. The clients' host comes after those that were
// asked for.
type Network interface {
	// Address is the host:port by which others reach the server on host i, and Listen the
	// arguments with which it is reached there.
	Address(i int) string
	Listen(i int) []string
	// Start starts a process on host i.
	Start(i int, cmd *exec.Cmd) error
	// Impose makes the way from one host to another worse until lift is called.
	Impose(from, to int, c Condition) (lift func())
	// Apart reports whether each way between two hosts is one of its own, in each direction.
	Apart() bool
	// String says what kind of hosts they are.
	String() string

	close()
}

// New makes n hosts, the best that can be had, until the test ends. The test is Inside.
func New(t *testing.T, n int) Network {
	t.Helper()
	h := newNetwork(t, n)
	t.Logf("%d %v", n, h)
	t.Cleanup(h.close)
	return h
}

// Host is one of a network's, as a place for a server (testkit.Place).
type Host struct {
	Network
	Number int
}

// Address implements testkit.Place.
func (h Host) Address() string { return h.Network.Address(h.Number) }

// Listen implements testkit.Place.
func (h Host) Listen() []string { return h.Network.Listen(h.Number) }

// Start implements testkit.Place.
func (h Host) Start(cmd *exec.Cmd) error { return h.Network.Start(h.Number, cmd) }
