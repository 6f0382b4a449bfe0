//go:build !linux

package nemesis

import "errors"

// mount gives the member a disk of its own, which fill makes full, and empty what it was, until unmount.
func (m *member) mount() error   { return errors.ErrUnsupported }
func (m *member) unmount() error { return nil }
func (m *member) fill() error    { return errors.ErrUnsupported }
func (m *member) empty() error   { return errors.ErrUnsupported }
