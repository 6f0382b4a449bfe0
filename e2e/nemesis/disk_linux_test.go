package nemesis

import (
	"fmt"
	"os"
	"syscall"
)

const (
	// diskBytes is the size of a member's small disk, and diskLeft what is left of it when
	// it is full.
	diskBytes = 2 << 30
	diskLeft  = 128 << 10
)

// mount gives the member a disk of its own, in memory.
func (m *member) mount() error {
	if os.Getenv(insideNamespace) == "" {
		return fmt.Errorf("no namespace for mounts: %w", syscall.EPERM)
	}
	return syscall.Mount("tmpfs", m.dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes))
}

// unmount takes the disk away.
func (m *member) unmount() error {
	if !m.mounted {
		return nil
	}
	return syscall.Unmount(m.dir, 0)
}

// fill makes the disk full, and empty makes it what it was: by its size.
func (m *member) fill() error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(m.dir, &st); err != nil {
		return err
	}
	used := (st.Blocks - st.Bfree) * uint64(st.Bsize)
	return m.resize(used + diskLeft)
}

func (m *member) empty() error { return m.resize(diskBytes) }

func (m *member) resize(bytes uint64) error {
	return syscall.Mount("tmpfs", m.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", bytes))
}
