//go:build unix

package config

import (
	"os"
	"syscall"
)

// ofRoot reports whether a file is root's.
func ofRoot(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0
}
