//go:build !linux

package server

import "syscall"

// hungUp is not available on other systems; there operations whose client has
// disconnected run to their end.
func hungUp(syscall.RawConn) bool { return false }
