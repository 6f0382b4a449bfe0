//go:build unix

package node

import (
	"os"
	"syscall"
)

// inodeOf returns the number of a file on its device, 0 if it has none.
func inodeOf(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
