//go:build unix

package server

import (
	"errors"
	"fmt"
	"log/syslog"
	"syscall"
)

// systemLog is the system's log as an audit.Output.
type systemLog struct{ *syslog.Writer }

func openSystemLog() (*systemLog, error) { return dialSystemLog("", "") }

// dialSystemLog opens the log of the system, or what listens at an address as that does.
func dialSystemLog(network, address string) (*systemLog, error) {
	w, err := syslog.Dial(network, address, syslog.LOG_INFO|syslog.LOG_AUTHPRIV, "mayfly")
	if err != nil {
		return nil, err
	}
	return &systemLog{w}, nil
}

// maxSystemLine is what of an event is written that is larger than a datagram can be, in bytes.
const maxSystemLine = 32 << 10

// Write implements audit.Output. An event for which a datagram is too small is cut: it could
// never be written, and nothing after it.
func (s *systemLog) Write(event []byte) error {
	_, err := s.Writer.Write(event)
	if errors.Is(err, syscall.EMSGSIZE) {
		_, err = s.Writer.Write(fmt.Appendf(event[:maxSystemLine:maxSystemLine], "... cut, of %d bytes", len(event)))
	}
	return err
}

// Rotate implements audit.Output: the system rotates its log itself.
func (*systemLog) Rotate() error { return nil }
