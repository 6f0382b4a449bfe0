// Package servertest runs whole servers inside the process of a test, where the test
// needs no process of its own to kill (package testkit has those).
package servertest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/server"
)

// Server is a server that listens.
type Server struct {
	Address string // "127.0.0.1:port"
	Log     string // the file of its log
	stop    func()
}

// Stop stops it, if it runs, and fails the test if it has ended with an error.
func (s *Server) Stop() { s.stop() }

// FreePort returns a port that nobody listens on, for servers that must know theirs
// before they start.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Start runs what mayfly serve runs with some options, until the test ends. Without
// --port it takes a free one; its log goes to a directory of the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, config.Input{Args: append([]string{"--dbpath", t.TempDir()}, args...)}, server.Assemble)
}

// StartRouter runs what mayfly router runs with some options, as Start does.
func StartRouter(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, config.Input{Args: args, Router: true}, server.AssembleRouter)
}

func start(t testing.TB, in config.Input, open server.Open) *Server {
	t.Helper()
	path := t.TempDir() + "/log"
	in.Args = append(slices.Clone(in.Args), "--nounixsocket", "--logpath", path)
	if !slices.Contains(in.Args, "--port") {
		in.Args = append(in.Args, "--port", "0")
	}
	o, err := config.Load(in)
	if err != nil {
		t.Fatal(err)
	}
	log, err := server.OpenLog(o.Log)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(o, log, open)
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background()) }()
	select {
	case <-s.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return &Server{Address: fmt.Sprintf("127.0.0.1:%d", s.Port()), Log: path, stop: stop}
}
