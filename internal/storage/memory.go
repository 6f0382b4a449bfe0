package storage

import "github.com/mayflydb/mayfly/internal/memory"

const (
	cacheShare    = 4         // the default cache is this share of memory
	minCacheBytes = 64 << 20  // and no less than this
	fallbackBytes = 256 << 20 // where the size of memory is not known
)

// DefaultCacheBytes is a quarter of the memory that the process may use.
func DefaultCacheBytes() int64 {
	total := memory.Machine()
	if total == 0 {
		return fallbackBytes
	}
	return max(minCacheBytes, total/cacheShare)
}
