//go:build !unix

package node

import "os"

// inodeOf returns the number of a file on its device, 0 if it has none.
func inodeOf(os.FileInfo) uint64 { return 0 }
