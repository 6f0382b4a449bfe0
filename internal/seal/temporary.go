package seal

import (
	"errors"
	"os"
)

// Temporary is a file without a name, under a key that is in memory alone: with the process it
// is gone, and what the disk still has of it cannot be read. It is written at its end.
type Temporary struct {
	*Blocks
	f *os.File
}

// NewTemporary makes a file on the disk of a directory.
func NewTemporary(dir string) (*Temporary, error) {
	f, err := os.CreateTemp(dir, "spill-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	b, err := NewBlocks(f, 0, NewKey())
	return &Temporary{b, f}, err
}

// Close gives the disk space back.
func (t *Temporary) Close() error { return t.f.Close() }
