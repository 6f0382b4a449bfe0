package node

import "syscall"

// diskSpace is how many bytes of the file system around a path are used, and
// how many there are; zeros where the system does not report it.
func diskSpace(path string) (used, total float64) {
	var s syscall.Statfs_t
	if path == "" || syscall.Statfs(path, &s) != nil {
		return 0, 0
	}
	block := float64(s.Bsize)
	return float64(s.Blocks-s.Bfree) * block, float64(s.Blocks) * block
}
