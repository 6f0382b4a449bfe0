package backup

import (
	"fmt"
	"os"
)

const lockName = "repository.lock"

// lock locks the repository: exclusive for who removes objects, else shared. It does not wait.
func (r *Repository) lock(exclusive bool) (unlock func() error, err error) {
	f, err := os.OpenFile(r.path(lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f, exclusive); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("the repository %s is in use by another mayfly backup: %w", r.dir, err)
	}
	return f.Close, nil
}
