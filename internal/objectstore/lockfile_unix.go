//go:build unix

package objectstore

import (
	"os"
	"syscall"
)

// lockFile locks a file until it is closed, or returns an error at once.
func lockFile(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
}
