package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/server"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Options say what server to start. The zero value is a standalone in memory.
type Options struct {
	// Dir has the data. It is made if its parent exists; "" is memory, which Stop frees.
	Dir string
	// ReplicaSet is the name of a set to be the only member of; "" for a standalone. Data in
	// Dir that a standalone wrote are kept.
	ReplicaSet string
	// Args are further options of mayfly serve: "--auth", "--port", "27017", … Without --port
	// the server takes a free one.
	Args []string
	// Log gets the server's log, a line of JSON at a time; nil discards it.
	Log io.Writer
}

// Server is a server that runs.
type Server struct {
	server *server.Server
	set    string
	stop   func() error
}

// cacheGB and memoryGB are the defaults of --cacheSizeGB and --operationMemoryGB: the memory is
// the program's, not the machine's.
const cacheGB, memoryGB = "0.25", "0.25"

// Start starts a server, and returns once it answers clients; a member of a replica set, once it
// is the primary.
func Start(o Options) (*Server, error) {
	dir := o.Dir
	if dir == "" { // for what does not fit into memory: sorts that spill
		var err error
		if dir, err = os.MkdirTemp("", "mayfly-embed-"); err != nil {
			return nil, err
		}
	}
	s, err := start(o, dir)
	if o.Dir != "" {
		return s, err
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop := s.stop
	s.stop = sync.OnceValue(func() error { return errors.Join(stop(), os.RemoveAll(dir)) })
	return s, nil
}

func start(o Options, dir string) (*Server, error) {
	args := []string{"--dbpath", dir, "--port", "0", "--nounixsocket", "--cacheSizeGB", cacheGB, "--operationMemoryGB", memoryGB}
	if o.ReplicaSet != "" {
		args = append(args, "--replSet", o.ReplicaSet, "--initiate")
	}
	options, err := config.Load(config.Input{Args: append(args, o.Args...), CheckParameter: server.CheckParameter})
	if err != nil {
		return nil, fmt.Errorf("embed: cannot start with these options:\n%w", err)
	}
	lines := o.Log
	if lines == nil {
		lines = io.Discard
	}
	s := &Server{server: server.New(options, server.LogTo(lines, options.Log), server.Assemble), set: o.ReplicaSet}
	s.server.Guest = true
	if o.Dir == "" {
		s.server.FS = storage.InMemory()
	}
	ended := make(chan error, 1)
	go func() { ended <- s.server.Run(context.Background()) }()
	select {
	case <-s.server.Ready():
	case err := <-ended:
		return nil, fmt.Errorf("embed: %w", err)
	}
	s.stop = sync.OnceValue(func() error {
		s.server.Stop()
		return <-ended
	})
	return s, nil
}

// Address returns host:port by which clients reach the server.
func (s *Server) Address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.server.Port()))
}

// URI returns the connection string for drivers.
func (s *Server) URI() string {
	uri := "mongodb://" + s.Address() + "/"
	if s.set != "" {
		uri += "?replicaSet=" + s.set
	}
	return uri
}

// Now returns the time by the server's clock.
func (s *Server) Now() time.Time { return s.server.Clock.Now() }

// Advance sets the server's clock forward by d. When it returns, what has expired by then is
// removed, except what a rule may not remove: one that is paused, or out of its window. Nothing is
// removed while the TTL monitor is off (ttlMonitorEnabled), fsyncLock holds writes, or the member is
// not the primary. If a removal fails, the clock is set, and the error says why.
//
// The clock is what documents see: expiry, $$NOW, $currentDate, cluster time. Sessions,
// cursors, transactions and time limits go by the time that passes.
func (s *Server) Advance(ctx context.Context, d time.Duration) error {
	_, err := s.server.Advance(ctx, d)
	return err
}

// Stop stops the server, once: it waits for running operations, and closes the data.
func (s *Server) Stop() error { return s.stop() }
