//go:build !unix

package storage

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockForReading locks a file as a server does: there is no lock for readers here.
func lockForReading(name string) (io.Closer, error) { return vfs.Default.Lock(name) }
