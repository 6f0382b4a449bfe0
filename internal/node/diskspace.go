package node

import (
	"syscall"

	"github.com/mayflydb/mayfly/internal/bson"
)

// dataPath is the directory of the data as the process was configured, "" where
// that is not known.
func (n *Node) dataPath() string {
	storage := n.Process.Parsed.Lookup("storage")
	if storage.Type != bson.TypeDocument {
		return ""
	}
	if path := storage.Doc().Lookup("dbPath"); path.Type == bson.TypeString {
		return path.Str()
	}
	return ""
}

// diskSpace is how many bytes of the file system around a path are used, and
// how many there are; zeros where the system does not tell.
func diskSpace(path string) (used, total float64) {
	var s syscall.Statfs_t
	if path == "" || syscall.Statfs(path, &s) != nil {
		return 0, 0
	}
	block := float64(s.Bsize)
	return float64(s.Blocks-s.Bfree) * block, float64(s.Blocks) * block
}
