//go:build !linux

package hosts

import "errors"

// Disk is a small disk that a directory is on, in memory.
type Disk struct{}

// Mount puts a directory, which is empty, on a disk of its own.
func Mount(string) (*Disk, error) { return nil, errors.ErrUnsupported }

// Unmount takes the disk away, with all that is on it.
func (*Disk) Unmount() error { return errors.ErrUnsupported }

// Fill makes the disk full.
func (*Disk) Fill() error { return errors.ErrUnsupported }

// Empty ends what Fill did.
func (*Disk) Empty() error { return errors.ErrUnsupported }
