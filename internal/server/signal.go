package server

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/config"
)

// insistAfter is the time after the first signal from which on another one forces an
// exit. An earlier one is a duplicate: timeout, make and terminals signal both the
// process and its group.
const insistAfter = 2 * time.Second

// handleSignals stops the server on SIGTERM, SIGINT and SIGHUP, exits at once on
// another one after insistAfter, and starts a new log file on SIGUSR1. The function
// that it returns undoes that and waits.
func (s *Server) handleSignals() (end func()) {
	got := make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		log := s.log.Logger("CONTROL").With("ctx", "SignalHandler")
		var asked time.Time
		for sig := range got {
			number, _ := sig.(syscall.Signal)
			log.Info("Received signal", "id", logSignal, "signal", int(number), "error", sig.String())
			switch {
			case sig == syscall.SIGUSR1:
				_ = s.log.Rotate() // which logs what went wrong
				if rotate := s.rotateAudit(); rotate != nil {
					if err := rotate(); err != nil {
						log.Error("The audit log cannot be rotated", "id", logAuditRotation, "error", err)
					}
				}
			case !asked.IsZero():
				if time.Since(asked) > insistAfter {
					s.exitNow(config.ExitAbrupt)
				}
			default:
				asked = time.Now()
				log.Info("will terminate after current cmd ends", "id", logTerminate)
				s.Stop()
			}
		}
	}()
	return func() {
		signal.Stop(got)
		close(got)
		<-done
	}
}

// exitNow exits without stopping anything, like a crash: acknowledged writes are
// recovered at the next start.
func (s *Server) exitNow(code int) {
	s.control.Log(s.life, LevelFatal, "Exiting at once", "id", logShutDown, "exitCode", code)
	_ = s.log.Close()
	os.Exit(code)
}
