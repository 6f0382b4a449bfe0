package hosts

import (
	"fmt"
	"os"
	"syscall"
)

const (
	// diskBytes is the size of a small disk, and diskLeft what is left of it when
	// it is full.
	diskBytes = 2 << 30
	diskLeft  = 128 << 10
)

// Disk is a small disk that a directory is on, in memory.
type Disk struct{ dir string }

// Mount puts a directory, which is empty, on a disk of its own.
func Mount(dir string) (*Disk, error) {
	if os.Getenv(insideNamespace) == "" {
		return nil, fmt.Errorf("no namespace for mounts: %w", syscall.EPERM)
	}
	return &Disk{dir}, syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes))
}

// Unmount takes the disk away, with all that is on it.
func (d *Disk) Unmount() error { return syscall.Unmount(d.dir, 0) }

// Fill makes the disk full, and Empty makes it what it was: by its size.
func (d *Disk) Fill() error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &st); err != nil {
		return err
	}
	used := (st.Blocks - st.Bfree) * uint64(st.Bsize)
	return d.resize(used + diskLeft)
}

// Empty ends what Fill did.
func (d *Disk) Empty() error { return d.resize(diskBytes) }

func (d *Disk) resize(bytes uint64) error {
	return syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", bytes))
}
