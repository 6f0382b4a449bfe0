//go:build !unix

package server

import (
	"errors"

	"github.com/mayflydb/mayfly/internal/audit"
)

func openSystemLog() (audit.Output, error) { return nil, errors.New("this system has no syslog") }
