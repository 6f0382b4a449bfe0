package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/wire"
)

// asMayfly makes the test's binary be mayfly.
const asMayfly = "TEST_BINARY_IS_MAYFLY"

func TestMain(m *testing.M) {
	if os.Getenv(asMayfly) != "" {
		os.Exit(run(os.Args))
	}
	os.Exit(m.Run())
}

func mayfly(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asMayfly+"=1")
	return cmd
}

// fails runs mayfly and wants it to end by itself with code, having said text
// to a person.
func fails(t *testing.T, code int, text string, args ...string) {
	t.Helper()
	cmd := mayfly(t, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	_ = cmd.Run() // the code below says it
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(stderr.String(), text) {
		t.Errorf("mayfly %s: exit code %d, said %q; want %d, %q", strings.Join(args, " "), got, &stderr, code, text)
	}
}

// running is a server that a test started.
type running struct {
	*exec.Cmd
	port  int
	lines chan string // what it logs, closed at its end
}

func startServer(t *testing.T, dir string, args ...string) *running {
	t.Helper()
	return runUntilItListens(t, mayfly(t, append([]string{"serve", "--dbpath", dir, "--port", "0", "--unixSocketPrefix", t.TempDir()}, args...)...))
}

// runUntilItListens runs a server on any port until the test ends.
func runUntilItListens(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{Cmd: cmd, lines: make(chan string, 10000)}
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	r.Stderr = &stderr
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Process.Kill(); _ = r.Wait() })
	go func() {
		defer close(r.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			r.lines <- s.Text()
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	attr := r.until(t, 23016)
	if r.port, _ = attr["port"].(int); r.port == 0 {
		f, _ := attr["port"].(float64)
		r.port = int(f)
	}
	if r.port == 0 {
		t.Fatalf("the server does not start: %s", &stderr)
	}
	return r
}

// until waits for the log line with that id and returns its attributes.
func (r *running) until(t *testing.T, id int) map[string]any {
	t.Helper()
	for line := range r.lines {
		var l struct {
			ID   int            `json:"id"`
			Attr map[string]any `json:"attr"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if l.ID == id {
			return l.Attr
		}
	}
	return nil
}

// command sends one command and returns the reply.
func (r *running) command(t *testing.T, text string) bson.Doc {
	t.Helper()
	nc, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	if _, err := wire.Write(nc, &wire.Message{OpCode: wire.OpMsg, Compressor: wire.None, Body: bson.MustParse(text)}); err != nil {
		t.Fatal(err)
	}
	f, err := wire.NewReader(nc).Next()
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	return m.Body
}

func (r *running) stop(t *testing.T, sig os.Signal, code int) {
	t.Helper()
	if err := r.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if attr := r.until(t, 23138); attr["exitCode"] != float64(code) {
		t.Errorf("the log says %v", attr)
	}
	err := r.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || r.ProcessState.ExitCode() != code {
		t.Errorf("%v, exit code %d, want %d", err, r.ProcessState.ExitCode(), code)
	}
}

func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"version"}, {"serve", "--help"}, {"serve", "--version"}} {
		out, err := mayfly(t, args...).Output()
		if err != nil || !strings.Contains(strings.ToLower(string(out)), "mayfly") {
			t.Errorf("mayfly %v: %v, %s", args, err, out)
		}
	}
	fails(t, config.ExitBadOptions, `unknown command "server"`, "server")
	fails(t, config.ExitBadOptions, "flag provided but not defined: -bogus", "demo", "--bogus")
	fails(t, config.ExitBadOptions, "--replSet and --cluster cannot be set together", "demo", "--replSet", "--cluster")
	fails(t, config.ExitBadOptions, `mayfly version: unexpected argument "now"`, "version", "now")
	fails(t, config.ExitBadOptions, "--dbpath: a router has no data", "router", "--configdb", "cfg/localhost:1", "--dbpath", "x")
	fails(t, config.ExitBadOptions, "--prot: unknown option; did you mean --port?", "serve", "--prot", "1")
	fails(t, config.ExitBadOptions, "--setParameter: Unknown --setParameter 'nonsense'", "serve", "--setParameter", "nonsense=1", "--port", "x")
	fails(t, config.ExitBadOptions, `--setParameter: Bad value for parameter "ttlMonitorSleepSecs"`, "serve", "--setParameter", "ttlMonitorSleepSecs=0")
	fails(t, config.ExitBadOptions, "log file", "serve", "--logpath", filepath.Join(t.TempDir(), "no", "such", "dir"))
	missing := filepath.Join(t.TempDir(), "no", "such")
	audited := []string{"serve", "--dbpath", t.TempDir(), "--port", "0", "--nounixsocket", "--auditDestination", "file", "--auditPath"}
	fails(t, config.ExitUncaught, "auditLog.destination", append(audited, filepath.Join(missing, "audit.json"))...) // the service is started again
	fails(t, config.ExitBadOptions, "auditLog.filter", append(audited, filepath.Join(t.TempDir(), "audit.json"), "--auditFilter", `{"a": {"$nope": 1}}`)...)
	fails(t, config.ExitUncaught, "Data directory "+missing+" not found", "serve", "--dbpath", missing, "--port", "0", "--nounixsocket")
}

// TestUsage holds that every command says what it does when it is asked to: on standard
// output, and without doing it.
func TestUsage(t *testing.T) {
	for _, c := range subcommands {
		for _, flag := range []string{"--help", "-h"} {
			out, err := mayfly(t, c.name, flag).Output()
			if err != nil || !strings.HasPrefix(string(out), "Usage: mayfly "+c.name) {
				t.Errorf("mayfly %s %s: %v, %s", c.name, flag, err, out)
			}
		}
	}
	out, err := mayfly(t, "router", "--help").Output()
	if err != nil || strings.Contains(string(out), "--dbpath") || !strings.Contains(string(out), "--configdb") {
		t.Errorf("the options of a router: %v, %s", err, out)
	}
}

// TestServe holds the life of a server: data outlives it, directory and port
// are its own, a signal ends it cleanly.
func TestServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	pid := filepath.Join(t.TempDir(), "pid")
	r := startServer(t, dir, "--setParameter", "ttlMonitorSleepSecs=5", "--pidfilepath", pid)
	if d := r.command(t, `{hello: 1, $db: "admin"}`); d.Lookup("ok").Double() != 1 {
		t.Error(d)
	}
	if d := r.command(t, `{insert: "c", documents: [{_id: 1, x: "kept"}], $db: "test"}`); d.Lookup("ok").Double() != 1 {
		t.Error(d)
	}
	if b, err := os.ReadFile(pid); err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(r.Process.Pid) {
		t.Errorf("the file has the process id %q: %v", b, err)
	}
	fails(t, config.ExitUncaught, "already running", "serve", "--dbpath", dir, "--port", "0", "--nounixsocket")
	fails(t, config.ExitNetError, "address already in use", "serve", "--dbpath", t.TempDir(), "--port", strconv.Itoa(r.port), "--nounixsocket")
	r.stop(t, syscall.SIGTERM, config.ExitClean)
	if _, err := os.Stat(pid); err == nil {
		t.Error("the file with the process id is still there")
	}

	r = startServer(t, dir)
	if d := r.command(t, `{find: "c", $db: "test"}`); !strings.Contains(d.String(), "kept") {
		t.Error(d)
	}
	r.stop(t, os.Interrupt, config.ExitClean)
}
