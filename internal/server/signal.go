package server

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/config"
)

// insistAfter is the time after the first signal to stop from which on another
// one means that somebody has lost patience. Before that it is the same wish,
// come twice: timeout, make and terminals signal the process and its group.
const insistAfter = 2 * time.Second

// handleSignals stops the server on SIGTERM, SIGINT and SIGHUP, ends the
// process at once where another comes insistAfter, and begins a new log file
// on SIGUSR1.
// The function it returns takes that back and waits.
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

// exitNow ends the process without stopping anything, as a crash would: what
// was acknowledged is found again at the next start.
func (s *Server) exitNow(code int) {
	s.control.Log(s.life, LevelFatal, "Exiting at once", "id", logShutDown, "exitCode", code)
	_ = s.log.Close()
	os.Exit(code)
}
