package server

import (
	"fmt"

	"github.com/mayflydb/mayfly/internal/audit"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
)

// openAudit opens the audit log, if one is asked for, and tells that the server starts.
// Errors: config.Errors for the filter; the others may be gone at the next start.
func (s *Server) openAudit() error {
	o := s.Options.Audit
	if o.Destination == "" {
		return nil
	}
	var out audit.Output
	var err error
	switch o.Destination {
	case "syslog":
		out, err = openSystemLog()
	case "console":
		out, err = openOutput(config.Log{})
	default:
		out, err = openOutput(config.Log{Path: o.Path, Append: true, Rotate: s.Options.Log.Rotate})
	}
	if err != nil {
		return fmt.Errorf("auditLog.destination: %w", err)
	}
	log, err := audit.New(audit.Options{Output: out, BSON: o.Format == "BSON", Filter: o.Filter, Log: s.log.Logger("ACCESS")})
	if err != nil {
		_ = out.Close()
		return config.Errors{{Place: "auditLog.filter", Message: err.Error()}}
	}
	if err := log.Tell(nil, "startup", new(bson.Builder).Doc("options", parsedOptions(s.Options)).Finish(), 0); err != nil {
		_ = log.Close()
		return fmt.Errorf("auditLog.destination: %w", err)
	}
	s.audit.Store(log)
	return nil
}

// auditWith has a dispatcher tell the audit log what is done.
func (s *Server) auditWith(d *command.Dispatcher) {
	if log := s.audit.Load(); log != nil {
		d.Audit = log
		log.Register(d.Params)
	}
}

// closeAudit tells that the server has stopped, and ends the audit log.
func (s *Server) closeAudit() error {
	log := s.audit.Load()
	if log == nil {
		return nil
	}
	log.Keep(nil, "shutdown", nil)
	return log.Close()
}

// rotateAudit starts a new file; nil if there is no audit log.
func (s *Server) rotateAudit() func() error {
	if log := s.audit.Load(); log != nil {
		return log.Rotate
	}
	return nil
}
