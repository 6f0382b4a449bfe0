package server

import "sync"

const (
	// ringLines is how many lines getLog shows.
	ringLines = 1024
	// ringLine bounds one line kept for getLog, in bytes; longer ones are truncated.
	ringLine = 4 << 10
)

// logRing keeps the last lines of a log.
type logRing struct {
	mu struct {
		sync.Mutex
		kept  [][]byte // up to ringLines, the oldest at total modulo ringLines
		total int64
	}
}

func newRing() *logRing { return &logRing{} }

// add stores a copy of line in the memory of the oldest line.
func (r *logRing) add(line []byte) {
	line = line[:min(len(line), ringLine)]
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := int(r.mu.total % ringLines); at < len(r.mu.kept) {
		r.mu.kept[at] = append(r.mu.kept[at][:0], line...)
	} else {
		r.mu.kept = append(r.mu.kept, append([]byte(nil), line...))
	}
	r.mu.total++
}

// lines returns the lines, the oldest first, and how many there ever were.
func (r *logRing) lines() ([]string, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.mu.kept)
	all := make([]string, 0, n)
	for i := range n {
		all = append(all, string(r.mu.kept[(int(r.mu.total)+i)%n]))
	}
	return all, r.mu.total
}
