package nemesis

import (
	"os/exec"
)

// network is where members run, and what is between them.
type network interface {
	// address is the host:port by which others reach member i, and listen the arguments
	// with which it is reached there.
	address(i int) string
	listen(i int) []string
	// start starts a process on the host of member i.
	start(i int, cmd *exec.Cmd) error
	// impose makes the way from one host to another worse until lift is called. The
	// clients' host comes after those of the members.
	impose(from, to int, c condition) (lift func())
	close()
	String() string
}
