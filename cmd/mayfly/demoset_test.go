package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mayflydb/mayfly/internal/config"
)

// TestDemoSet: the demo tells where its members are and how to look at them, kills the primary,
// goes on with another one, brings the first one back, and leaves no process behind when it
// is interrupted.
func TestDemoSet(t *testing.T) {
	cmd := mayfly(t, "demo", "--replSet")
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var hosts []string
	var text strings.Builder
	killed, back, interrupted := false, false, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		fmt.Fprintln(&text, line)
		switch {
		case strings.Contains(line, "running as a replica set"):
			hosts = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindAllString(line, -1)
		case strings.Contains(line, "is primary after"):
			killed = true
		case strings.Contains(line, "starts again on"):
			back = true
		case back && !interrupted:
			interrupted = true
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || cmd.ProcessState.ExitCode() != config.ExitClean {
		t.Errorf("the demo ended with %v", err)
	}
	if !killed || !interrupted || len(hosts) != demoSetMembers || !strings.Contains(text.String(), "mongodb://"+strings.Join(hosts, ",")) {
		t.Errorf("it said:\n%s", &text)
	}
	for _, h := range hosts {
		if c, err := net.Dial("tcp", h); err == nil {
			_ = c.Close()
			t.Errorf("%s still answers", h)
		}
	}
}
