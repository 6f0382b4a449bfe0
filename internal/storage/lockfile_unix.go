//go:build unix

package storage

import (
	"io"
	"os"
	"syscall"
)

// lockForReading locks a file against the lock of a server, as many readers may, and
// needs no right to write it.
func lockForReading(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	spec := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &spec); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
