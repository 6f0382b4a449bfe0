package testkit

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// startTimeout is how long a server may take until it answers.
const startTimeout = 60 * time.Second

// goodbyeTimeout is how long a client tries to end its sessions.
const goodbyeTimeout = time.Second

// Server is a running `mayfly serve`, or `mayfly router`.
type Server struct {
	Dir  string // its --dbpath; "" for a router
	Port int
	Args []string // further arguments
	// Binary is another one than is to be tested; "" for that one.
	Binary string
	// TLS is how clients connect; nil: without.
	TLS *tls.Config
	// At is where it runs; nil: on the loopback of this machine.
	At Place

	tb     testing.TB
	cmd    *exec.Cmd
	out    *syncBuffer
	before strings.Builder // what the processes before have printed
}

// Place is where a server runs: a host that a test makes (package e2e/hosts).
type Place interface {
	// Address is the host:port by which others reach the server, and Listen the arguments
	// with which it is reached there.
	Address() string
	Listen() []string
	// Start starts a process there.
	Start(*exec.Cmd) error
}

// syncBuffer is the output of a process, read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var build = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("MAYFLY_BIN"); bin != "" {
		return bin, nil
	}
	dir, err := os.MkdirTemp("", "mayfly-bin-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "mayfly")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/mayflydb/mayfly/cmd/mayfly")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, nil
})

// Binary is the path of the server's binary: MAYFLY_BIN, or one that is built
// for the tests of this process.
func Binary(tb testing.TB) string {
	tb.Helper()
	bin, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return bin
}

// FreePort is a port of the loopback that nobody listens on.
func FreePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Start runs a server on an empty directory until the test ends.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return StartIn(tb, tb.TempDir(), args...)
}

// StartIn is Start on a directory that is there, or whose parent is.
func StartIn(tb testing.TB, dir string, args ...string) *Server {
	tb.Helper()
	return startServer(tb, &Server{Dir: dir, Port: FreePort(tb), Args: args, tb: tb})
}

// StartOn is StartIn at a port that was chosen before.
func StartOn(tb testing.TB, port int, dir string, args ...string) *Server {
	tb.Helper()
	return startServer(tb, &Server{Dir: dir, Port: port, Args: args, tb: tb})
}

// StartBinary is Start of another binary than is to be tested.
func StartBinary(tb testing.TB, binary string, args ...string) *Server {
	tb.Helper()
	return startServer(tb, &Server{Dir: tb.TempDir(), Port: FreePort(tb), Args: args, Binary: binary, tb: tb})
}

// StartRouter runs a router of the cluster with these config servers until the test ends.
func StartRouter(tb testing.TB, configdb string, args ...string) *Server {
	tb.Helper()
	return startServer(tb, &Server{Port: FreePort(tb), Args: append([]string{"--configdb", configdb}, args...), tb: tb})
}

// StartTLS is Start of a server to which clients connect with TLS: configdb "" makes one with
// data, others a router.
func StartTLS(tb testing.TB, conf *tls.Config, configdb string, args ...string) *Server {
	tb.Helper()
	s := &Server{Port: FreePort(tb), Args: args, TLS: conf, tb: tb}
	if configdb == "" {
		s.Dir = tb.TempDir()
	} else {
		s.Args = append([]string{"--configdb", configdb}, args...)
	}
	return startServer(tb, s)
}

// StartAt starts a server at a place until the test ends, on a directory that is there: configdb
// "" makes one with data, others a router.
func StartAt(tb testing.TB, at Place, dir, configdb string, args ...string) *Server {
	tb.Helper()
	if configdb != "" {
		dir, args = "", append([]string{"--configdb", configdb}, args...)
	}
	return startServer(tb, &Server{Dir: dir, Args: args, At: at, tb: tb})
}

func startServer(tb testing.TB, s *Server) *Server {
	tb.Helper()
	tb.Cleanup(func() { // after the clients have said goodbye
		s.Kill()
		if tb.Failed() {
			tb.Logf("output of the server:\n%s", tail(s.Output(), 8<<10))
		}
	})
	s.Run()
	return s
}

func tail(s string, n int) string { return s[max(len(s)-n, 0):] }

// Exec runs the binary to its end, with env added to this process's environment, and
// returns its exit code and what it printed.
func Exec(tb testing.TB, env []string, args ...string) (code int, out string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(tb), args...)
	cmd.Env = append(os.Environ(), env...)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		tb.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// Run starts the process, on the same directory and port each time, and waits
// until it answers.
func (s *Server) Run() {
	s.tb.Helper()
	args := []string{"serve", "--dbpath", s.Dir}
	if s.Dir == "" {
		args = []string{"router"}
	}
	listen, start := []string{"--port", strconv.Itoa(s.Port)}, (*exec.Cmd).Start
	if s.At != nil {
		listen, start = s.At.Listen(), s.At.Start
	}
	args = append(append(append(args, listen...), "--nounixsocket"), s.Args...)
	binary := s.Binary
	if binary == "" {
		binary = Binary(s.tb)
	}
	s.cmd = exec.Command(binary, args...)
	if s.out != nil {
		s.before.WriteString(s.out.String())
	}
	s.out = &syncBuffer{}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := start(s.cmd); err != nil {
		s.tb.Fatal(err)
	}
	c := s.Direct()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := c.Ping(ctx, nil); err != nil {
		s.tb.Fatalf("the server does not answer: %v\n%s", err, s.out)
	}
}

// URI is the connection string.
func (s *Server) URI() string {
	if s.At != nil {
		return "mongodb://" + s.At.Address() + "/"
	}
	return fmt.Sprintf("mongodb://127.0.0.1:%d/", s.Port)
}

// Host is the host:port by which other servers reach this one.
func (s *Server) Host() string {
	if s.At != nil {
		return s.At.Address()
	}
	return fmt.Sprintf("localhost:%d", s.Port)
}

// Client connects a driver until the test ends.
func (s *Server) Client() *mongo.Client {
	s.tb.Helper()
	return s.connect(options.Client())
}

// Direct connects a driver to this server alone, whatever it is in a replica set.
func (s *Server) Direct() *mongo.Client {
	s.tb.Helper()
	return s.connect(options.Client().SetDirect(true))
}

func (s *Server) connect(o *options.ClientOptions) *mongo.Client {
	s.tb.Helper()
	if s.TLS != nil {
		o.SetTLSConfig(s.TLS)
	}
	return Connect(s.tb, o.ApplyURI(s.URI()).SetServerSelectionTimeout(startTimeout))
}

// Connect connects a driver until the test ends.
func Connect(tb testing.TB, o *options.ClientOptions) *mongo.Client {
	tb.Helper()
	c, err := mongo.Connect(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// Its server may be gone: then there is nobody to say goodbye to.
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
		defer cancel()
		_ = c.Disconnect(ctx)
	})
	return c
}

// Kill ends the process as a power cut would: no signal handler runs.
// Run starts it again.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Stop asks the process to end and returns its exit code.
func (s *Server) Stop() int {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	return s.Wait()
}

// Wait waits until the process has ended and returns its exit code.
func (s *Server) Wait() int {
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// PID is the number of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Output is what the process has printed.
func (s *Server) Output() string { return s.out.String() }

// Printed is Output, behind what the processes printed that ran in its place before.
func (s *Server) Printed() string { return s.before.String() + s.out.String() }
