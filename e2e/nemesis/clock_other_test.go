//go:build !linux || !amd64

package nemesis

import (
	"errors"
	"time"
)

// clocksJump says whether setClock works here.
const clocksJump = false

// setClock sets the clock of a process to be so far off the computer's.
func setClock(int, time.Duration) error { return errors.ErrUnsupported }
