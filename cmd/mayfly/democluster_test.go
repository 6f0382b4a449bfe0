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

// TestDemoCluster: the demo tells where its servers are and how to look at them, moves
// ranges without a session lost, and leaves no process behind when it is interrupted.
func TestDemoCluster(t *testing.T) {
	cmd := mayfly(t, "demo", "--cluster")
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
	interrupted, moved := false, 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		fmt.Fprintln(&text, line)
		switch {
		case strings.Contains(line, "running as a cluster"):
			hosts = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindAllString(line, -1)
		case strings.Contains(line, "have moved"):
			moved++
		case moved == 2 && !interrupted && regexp.MustCompile(`s2 +[1-9]`).MatchString(line):
			interrupted = true
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || cmd.ProcessState.ExitCode() != config.ExitClean {
		t.Errorf("the demo ended with %v", err)
	}
	if !interrupted || len(hosts) != demoClusterShards+2 || !strings.Contains(text.String(), "mongosh mongodb://"+hosts[len(hosts)-1]) {
		t.Errorf("it said:\n%s", &text)
	}
	for _, h := range hosts {
		if c, err := net.Dial("tcp", h); err == nil {
			_ = c.Close()
			t.Errorf("%s still answers", h)
		}
	}
}
