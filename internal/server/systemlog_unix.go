//go:build unix

package server

import "log/syslog"

// systemLog is the system's log as an audit.Output.
type systemLog struct{ *syslog.Writer }

func openSystemLog() (*systemLog, error) {
	w, err := syslog.New(syslog.LOG_INFO|syslog.LOG_AUTHPRIV, "mayfly")
	if err != nil {
		return nil, err
	}
	return &systemLog{w}, nil
}

// Write implements audit.Output.
func (s *systemLog) Write(event []byte) error {
	_, err := s.Writer.Write(event)
	return err
}

// Rotate implements audit.Output: the system rotates its log itself.
func (*systemLog) Rotate() error { return nil }
