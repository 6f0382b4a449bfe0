package node

import "syscall"

// DiskSpace is how many bytes of the file system around a path are used, how many are free for
// this process, and how many there are; zeros where the system does not report it.
func DiskSpace(path string) (used, free, total float64) {
	var s syscall.Statfs_t
	if path == "" || syscall.Statfs(path, &s) != nil {
		return 0, 0, 0
	}
	block := float64(s.Bsize)
	return float64(s.Blocks-s.Bfree) * block, float64(s.Bavail) * block, float64(s.Blocks) * block
}
