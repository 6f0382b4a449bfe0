package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Main is the life of the process after its options are known: it logs,
// listens to signals, serves, and returns the exit code. The error says to a
// person why it is not ExitClean.
func Main(ctx context.Context, o *config.Options, open Open) (code int, err error) {
	log, err := OpenLog(o.Log)
	if err != nil {
		return config.ExitBadOptions, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	s := New(o, log, open)
	invariant.SetReporter(func(r invariant.Report) {
		s.control.Error("Invariant broken", "id", logInvariant, "message", r.Message, "place", r.Place, "stack", r.Stack)
	})
	defer s.handleSignals()()
	s.announce()
	removePID, err := writePIDFile(o.Process.PIDFile)
	if err != nil {
		s.control.Error("Failed to write PID file", "id", logPIDFile, "error", err)
		return config.ExitUncaught, err
	}
	defer removePID()

	err = s.Run(ctx)
	code = exitCode(err)
	s.explain(err)
	s.control.Info("Now exiting", "id", logExiting)
	s.control.Info("Shutting down", "id", logShutDown, "exitCode", code)
	return code, err
}

// explain logs why the server did not start.
func (s *Server) explain(err error) {
	var address *ListenError
	switch {
	case err == nil:
	case errors.As(err, &address):
		s.control.Error("Error setting up listener", "id", logListenFailed,
			"error", mongoerr.New(mongoerr.SocketException, "%s", err.Error()))
	default:
		e := mongoerr.From(err)
		s.control.Error("DBException in initAndListen, terminating", "id", logStartFailed, "error", fmt.Sprintf("%s: %s", e.Code, err))
	}
}

// exitCode returns the exit code for an error of Run.
func exitCode(err error) int {
	var address *ListenError
	var options config.Errors
	switch {
	case err == nil:
		return config.ExitClean
	case errors.As(err, &address):
		return config.ExitNetError
	case errors.As(err, &options):
		return config.ExitBadOptions
	case errors.Is(err, ErrStuck):
		return config.ExitAbrupt
	}
	return config.ExitUncaught
}
